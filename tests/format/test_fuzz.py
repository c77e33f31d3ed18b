"""Arbitrary and mutated bytes into every parser: out come values, or FlowMesh's own errors."""

import importlib.util
import json
import struct
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowmesh.format import batch
from tests.fuzz import parsers
from tests.fuzz.parsers import PARSERS, survive

EDGES = (0, 1, 0x7F, 0x80, 0xFF)


@st.composite
def mutated(draw: st.DrawFn, name: str) -> bytes:
    """A golden file with some bytes changed, words put to their edges, pieces cut out, doubled or put in."""
    data = bytearray(draw(st.sampled_from([path.read_bytes() for path in parsers.seeds(name)])))
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, len(data)))
        size = draw(st.sampled_from([1, 2, 4, 8]))
        match draw(st.sampled_from(["bytes", "edge", "cut", "double", "insert"])):
            case "bytes":
                data[position : position + size] = draw(st.binary(min_size=size, max_size=size))
            case "edge":
                data[position : position + size] = bytes([draw(st.sampled_from(EDGES))]) * size
            case "cut":
                del data[position : position + draw(st.integers(0, 64))]
            case "double":
                data[position:position] = data[position : position + 64]
            case _:
                data[position:position] = draw(st.binary(max_size=16))
    return bytes(data)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """A sound header, and a body of small words: what comes close to offsets, bitmaps and deltas."""
    count = draw(st.integers(1, 4))
    word = st.integers(-2, 6) | st.sampled_from([2**31 - 1, -(2**31)])
    words = draw(st.lists(word, max_size=24))
    body = struct.pack(f"<{len(words)}i", *words) + draw(st.binary(max_size=8))
    times = draw(st.sampled_from([0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63)]))
    latest = times if draw(st.booleans()) else draw(st.integers(-(2**63), 2**63 - 1))
    header = batch.make(
        body, flags=draw(st.integers(0, 31)), count=count, base_time_ns=times, max_time_ns=latest
    ).header
    offset = draw(st.sampled_from([0, 7, 2**63 - 1 - count, 2**63 - count, 2**64 - 1]))
    return batch.HEADER.pack(*header._replace(base_offset=offset)) + body


@pytest.mark.parametrize("name", sorted(PARSERS))
@given(data=st.binary(max_size=600))
def test_arbitrary_bytes(name: str, data: bytes) -> None:
    survive(name, data)


@pytest.mark.parametrize("name", sorted(set(PARSERS) - {"name"}))
@settings(max_examples=300)
@given(data=st.data())
def test_mutated_golden_files(name: str, data: st.DataObject) -> None:
    survive(name, data.draw(mutated(name)))


@pytest.mark.parametrize("name", sorted({"batch", "columns", "arrow"} & set(PARSERS)))
@settings(max_examples=400)
@given(data=batches())
def test_bodies_of_small_words(name: str, data: bytes) -> None:
    survive(name, data)


@pytest.mark.parametrize("name", sorted({"chain", "floor", "checkpoint"}))
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    ),
    st.data(),
)
def test_documents_with_a_strange_field(name: str, value: object, data: st.DataObject) -> None:
    """The right JSON but for one field, which holds anything that JSON can."""
    fields = json.loads(parsers.seeds(name)[0].read_bytes())
    fields[data.draw(st.sampled_from(sorted(fields)))] = value
    survive(name, json.dumps(fields).encode())


def test_every_parser_has_seeds_and_survives_them() -> None:
    for name in set(PARSERS) - {"name"}:
        assert parsers.seeds(name)
        for path in parsers.seeds(name):
            survive(name, path.read_bytes())


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris has no wheel for this platform")
@pytest.mark.parametrize("name", sorted(PARSERS))
def test_atheris_finds_nothing(name: str) -> None:
    command = [sys.executable, parsers.__file__, "--seconds", "60", name]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=800)
    assert run.returncode == 0, run.stderr[-4000:]
