"""Bodies, queries and headers that nobody would send: never a 5xx, never a dead node."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowmesh.api.http import arrow_bodies, record_forms
from flowmesh.api.http.appending import DECODERS
from flowmesh.base.errors import FlowMeshError
from tests.api.http.conftest import ServedNode, append, make_stream, problem, read

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(["value", "key", "headers", "time", "base64", "offset"]) | st.text(max_size=5)
RECORDS = st.dictionaries(NAMES, JSON, max_size=5)
BYTES = st.binary(max_size=300)
BODIES = BYTES | RECORDS.map(json.dumps).map(str.encode) | st.lists(RECORDS, max_size=4).map(json.dumps).map(str.encode)
MEDIA = st.sampled_from([name.decode() for name in DECODERS]) | st.text(st.characters(codec="ascii"), max_size=20)
QUERY = st.dictionaries(
    st.sampled_from(["partition", "key", "offset", "limit", "time", "at", "bytes_max", "window", "producer_id"]),
    st.integers().map(str) | st.text(max_size=6),
    max_size=3,
)


def printable(text: str) -> str:
    return "".join(char for char in text if char.isprintable()).strip()


@pytest.fixture(scope="module")
def fuzzed(served: ServedNode) -> Iterator[tuple[httpx.Client, str]]:
    with served.client() as client:
        yield client, make_stream(client, "fuzzed", partitions=2)


@settings(max_examples=300)
@given(body=BODIES, media=MEDIA, query=QUERY, encoding=st.sampled_from([None, "gzip", "zstd", "br"]))
def test_appends_are_taken_or_refused_and_nothing_breaks(
    fuzzed: tuple[httpx.Client, str], body: bytes, media: str, query: dict[str, str], encoding: str | None
) -> None:
    client, stream = fuzzed
    headers = {"content-type": printable(media)} | ({"content-encoding": encoding} if encoding else {})
    found = client.post(f"{stream}/records", content=body, headers=headers, params=query)
    assert found.status_code < 500
    if found.status_code >= 400:
        problem(found)


@settings(max_examples=200)
@given(query=QUERY, accept=st.sampled_from(["application/x-ndjson", "application/vnd.apache.arrow.stream", "*/*"]))
def test_reads_are_answered_or_refused(fuzzed: tuple[httpx.Client, str], query: dict[str, str], accept: str) -> None:
    client, stream = fuzzed
    found = client.get(f"{stream}/records", params=query, headers={"accept": accept})
    assert found.status_code < 500


@settings(max_examples=200)
@given(body=BODIES, path=st.sampled_from(["/v1/tokens", "/v1/default/tests/streams/fuzzed-form", "/v1/tenants/fuzz"]))
def test_forms_are_taken_or_refused(fuzzed: tuple[httpx.Client, str], body: bytes, path: str) -> None:
    client, _ = fuzzed
    method = "POST" if path == "/v1/tokens" else "PUT"
    found = client.request(method, path, content=body, headers={"content-type": "application/json"})
    assert found.status_code < 500
    if found.status_code == 201 and method == "PUT":
        client.delete(path)


@settings(max_examples=100)
@given(settings_given=st.dictionaries(
    st.sampled_from(["partitions", "retention_age_ms", "retention_bytes", "segment_bytes", "segment_age_ms"]),
    st.integers(-1, 5) | st.integers() | st.none(),
))  # fmt: skip
def test_settings_are_taken_or_refused(fuzzed: tuple[httpx.Client, str], settings_given: dict[str, Any]) -> None:
    client, stream = fuzzed
    path = stream.replace("fuzzed", "fuzzed-settings")
    for method in ("PUT", "PATCH"):
        assert client.request(method, path, json=settings_given).status_code < 500
    client.delete(path)


def test_the_node_is_as_it_was(fuzzed: tuple[httpx.Client, str]) -> None:
    client, _ = fuzzed
    stream = make_stream(client, "after-the-fuzz")
    append(client, stream, "x")
    assert [record["value"] for record in read(client, stream)] == ["x"]


# --- without a socket, where more can be tried --------------------------------------------------------------------


@settings(max_examples=500)
@given(body=BODIES)
def test_record_forms_raise_only_what_is_meant_for_users(body: bytes) -> None:
    for decode in (record_forms.single, record_forms.listed, record_forms.lines):
        with contextlib.suppress(FlowMeshError):
            decode(body)


def arrow_example() -> bytes:
    headers = pa.array([[(b"a", b"1")], None, []], pa.map_(pa.binary(), pa.binary()))
    table = pa.table({"value": [b"x", None, b"zz"], "key": ["k", None, "kk"], "headers": headers})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


EXAMPLE = arrow_example()


@settings(max_examples=1500)
@given(flips=st.lists(st.tuples(st.integers(0, len(EXAMPLE) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_arrow_raises_only_what_is_meant_for_users(flips: list[tuple[int, int]]) -> None:
    damaged = bytearray(EXAMPLE)
    for position, value in flips:
        damaged[position] = value
    with contextlib.suppress(FlowMeshError):
        arrow_bodies.rows(bytes(damaged))
