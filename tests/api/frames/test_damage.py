"""Malformed, oversized and random bytes to a live node: one connection ends, all others go on."""

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowmesh.base.errors import ErrorCode
from flowmesh.base.limits import FRAME_BYTES_MAX, FRAME_HEADER_BYTES_MAX, MIB, RECORD_BYTES_MAX
from flowmesh.format import frame
from flowmesh.format.frame import PREFIX, FrameKind
from flowmesh.operations.table import OPERATIONS
from tests.api.frames.node_thread import NodeThread
from tests.api.frames.wire import PLACE, Ended, Wire

LIVE = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def prefix(length: int, version: int = 1, kind: int = 2, header_bytes: int = 0) -> bytes:
    return PREFIX.pack(length, 1, version, kind, 0, 0, header_bytes)


@pytest.mark.parametrize(
    "data, code",
    [
        (prefix(12, version=9), ErrorCode.UNSUPPORTED_VERSION),
        (prefix(12, kind=99), ErrorCode.BAD_REQUEST),
        (prefix(0), ErrorCode.BAD_REQUEST),
        (prefix(12, header_bytes=1), ErrorCode.BAD_REQUEST),
        (prefix(FRAME_BYTES_MAX), ErrorCode.TOO_LARGE),
        (prefix(2**32 - 1), ErrorCode.TOO_LARGE),
        (prefix(2 * MIB, header_bytes=FRAME_HEADER_BYTES_MAX + 1), ErrorCode.TOO_LARGE),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", ErrorCode.UNSUPPORTED_VERSION),
        (frame.encode(FrameKind.REPLY, 1, 1), ErrorCode.BAD_REQUEST),
        (frame.encode(FrameKind.PUSH, 1, 1), ErrorCode.BAD_REQUEST),
        (frame.encode(FrameKind.ACK, 1, 1, b"\xc1"), ErrorCode.BAD_REQUEST),
    ],
)
def test_a_fault_ends_its_own_connection_with_an_error(
    node: NodeThread, wire: Wire, data: bytes, code: ErrorCode
) -> None:
    with Wire(node.port, node.token) as bad:
        good = frame.encode(FrameKind.REQUEST, 1, 7, b"\x80")
        bad.socket.sendall(good + data)
        assert bad.last_words()["code"] == code
    assert "id" in wire.call("node.describe")


def test_a_record_over_its_limit_is_refused_alone(wire: Wire) -> None:
    wire.create("large")
    refused = wire.call("stream.append", bytes(RECORD_BYTES_MAX + 1), **PLACE, name="large")
    assert refused["code"] == ErrorCode.TOO_LARGE
    assert "appends" in wire.call("stream.append", bytes(RECORD_BYTES_MAX), **PLACE, name="large")


@LIVE
@given(data=st.binary(max_size=400), welcome=st.booleans())
def test_random_bytes_harm_nobody_else(node: NodeThread, wire: Wire, data: bytes, welcome: bool) -> None:
    with Wire(node.port, node.token if welcome else None) as bad:
        bad.socket.sendall(data)
    assert "id" in wire.call("node.describe")


headers = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({name for operation in OPERATIONS for name in operation.request.__struct_fields__} | {"key", "headers"})
requests = st.dictionaries(st.sampled_from(FIELDS), headers, max_size=5) | headers


@LIVE
@given(
    items=st.lists(
        st.tuples(
            st.sampled_from([2, 2, 2, 6, 7, 9]),
            st.sampled_from([operation.code for operation in OPERATIONS if operation.code > 20 or operation.code == 1]),
            requests,
            st.binary(max_size=90),
            st.integers(0, 3),
        ),
        max_size=12,
    )
)
def test_frames_that_are_whole_and_make_no_sense_are_answered(
    node: NodeThread, wire: Wire, items: list[tuple[int, int, object, bytes, int]]
) -> None:
    with Wire(node.port, node.token) as odd:
        try:
            for kind, code, header, body, flags in items:
                odd.send(kind, code, header, body, flags=flags)
            odd.send(FrameKind.PING, 0, number=999_999)
            while odd.receive().correlation not in (0, 999_999):
                pass
        except (Ended, ConnectionError):
            pass
    assert "id" in wire.call("node.describe")


@LIVE
@given(
    count=st.integers(-2, 6),
    numbers=st.lists(st.integers(-2, 9) | st.just(2**31 - 1), max_size=20),
    flags=st.integers(0, 31),
)
def test_batches_of_small_words_are_stored_or_refused(
    node: NodeThread, wire: Wire, count: int, numbers: list[int], flags: int
) -> None:
    """What is stored is served again, and read by whoever comes next."""
    if wire.call("stream.describe", **PLACE, name="words").get("code"):
        wire.create("words")
    body = struct.pack(f"<{len(numbers)}i", *numbers)
    header = struct.pack("<BBBBIQqqQQIIII", 1, 0, 0, flags, count % 2**32, 0, 5, 5, 0, 0, 0, 0, 0, len(body))
    answer = wire.call("stream.append", header + body, flags=2, **PLACE, name="words")
    assert "appends" in answer or answer["code"] in (ErrorCode.BAD_REQUEST, ErrorCode.TOO_LARGE)
    if "appends" in answer:
        from tests.api.frames.test_operations import read_all

        assert len(read_all(wire, "words")) == answer["appends"][0]["end_offset"]
