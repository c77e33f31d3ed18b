"""Frames: what goes in comes out, however it is cut; runs say the same as their frames; bad bytes end in an error."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowmesh.base.errors import BadRequest, FlowMeshError, TooLarge, UnsupportedVersion
from flowmesh.base.limits import KIB, MIB
from flowmesh.format import frame
from flowmesh.format.frame import PREFIX, PREFIX_SIZE, Frame, FrameDecoder, FrameKind, FrameRun

Seen = tuple[int, int, int, int, bytes, bytes]


def flat(found: list[Frame | FrameRun]) -> list[Seen]:
    """Frames and runs alike as plain frames."""
    frames: list[Frame] = []
    for item in found:
        frames += item.frames() if isinstance(item, FrameRun) else [item]
    return [(*item[:5], bytes(item.body)) for item in frames]


def encoded(item: Seen) -> bytes:
    kind, flags, code, correlation, header, body = item
    return frame.encode(kind, code, correlation, header, body, flags=flags)


def fed(data: bytes, cuts: list[int], decoder: FrameDecoder | None = None) -> list[Seen]:
    decoder = decoder or FrameDecoder()
    found: list[Seen] = []
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for first, last in pairwise(bounds):
        if first < last:
            found += flat(decoder.feed(data[first:last]))
    return found


bodies = st.binary(max_size=40) | st.binary(max_size=3).map(lambda data: data * 60_000)
frames = st.tuples(
    st.sampled_from([kind.value for kind in FrameKind]),
    st.integers(0, 3),
    st.integers(0, 255),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=30),
    bodies,
)


@given(st.lists(frames, max_size=8), st.lists(st.integers(0, 10**6), max_size=12))
def test_frames_come_out_as_they_went_in_however_they_are_cut(items: list[Seen], cuts: list[int]) -> None:
    decoder = FrameDecoder()
    assert fed(b"".join(map(encoded, items)), cuts, decoder) == items
    assert decoder.held_bytes == 0
    assert decoder.failure is None


@given(
    st.lists(st.tuples(st.integers(1, 300), st.sampled_from([b"h", b"hh", b"other"]), st.integers(0, 3)), max_size=6),
    st.sampled_from([0, 7, 2**32 - 40]),
    st.lists(st.integers(0, 10**6), max_size=6),
)
def test_runs_say_the_same_as_single_frames(
    groups: list[tuple[int, bytes, int]], correlation: int, cuts: list[int]
) -> None:
    items: list[Seen] = []
    for size, header, flags in groups:
        for row in range(size):
            number = (correlation + len(items)) % 2**32
            items.append((2, flags, 21, number, header, struct.pack("<Q", row)))
    assert fed(b"".join(map(encoded, items)), cuts) == items


def test_alike_requests_come_out_as_one_run() -> None:
    data = b"".join(frame.encode(2, 21, number, b"header", b"%03d" % number) for number in range(60))
    (run,) = FrameDecoder().feed(data)
    assert isinstance(run, FrameRun)
    assert (run.correlation, run.header, len(run.bodies)) == (0, b"header", 60)
    assert run.bodies[59] == b"059"


@pytest.mark.parametrize("odd", [b"\x03", b"\x04"])
def test_other_kinds_never_become_runs(odd: bytes) -> None:
    data = b"".join(frame.encode(odd[0], 21, number, b"", b"x") for number in range(5))
    assert all(isinstance(item, Frame) for item in FrameDecoder().feed(data))


def test_runs_that_do_not_last_cost_no_more_than_frames() -> None:
    """Pairs that are alike, each unlike the next: every try for a long run fails, and must stay small."""
    data = b"".join(frame.encode(2, 21, number, b"a" if number // 2 % 2 else b"b", b"x") for number in range(20_000))
    assert len(flat(FrameDecoder().feed(data))) == 20_000


def test_a_large_body_is_not_copied_out_of_what_arrived() -> None:
    data = frame.encode(2, 21, 1, b"h", bytes(MIB))
    (item,) = FrameDecoder().feed(data)
    assert isinstance(item, Frame)
    assert isinstance(item.body, memoryview)
    assert item.body.obj is data


def prefix(length: int, version: int = 1, kind: int = 2, header_bytes: int = 0) -> bytes:
    return PREFIX.pack(length, 1, version, kind, 0, 0, header_bytes)


@pytest.mark.parametrize(
    "data, error",
    [
        (prefix(12, version=2), UnsupportedVersion),
        (prefix(12, kind=0), BadRequest),
        (prefix(12, kind=len(FrameKind) + 1), BadRequest),
        (prefix(11), BadRequest),
        (prefix(12, header_bytes=1), BadRequest),
        (prefix(2**32 - 1), TooLarge),
        (prefix(KIB), TooLarge),
        (prefix(500, header_bytes=101), TooLarge),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", UnsupportedVersion),
    ],
)
def test_a_fault_is_seen_before_the_frame_is_whole(data: bytes, error: type[FlowMeshError]) -> None:
    good = frame.encode(2, 1, 9)
    for first in (data, data[:PREFIX_SIZE]):
        decoder = FrameDecoder(frame_bytes_max=1000, header_bytes_max=100)
        assert [item[3] for item in flat(decoder.feed(good + first))] == [9]
        assert isinstance(decoder.failure, error)
        assert decoder.held_bytes == 0


def test_nothing_is_taken_for_a_length_that_was_only_announced() -> None:
    decoder = FrameDecoder()
    decoder.feed(prefix(30 * MIB))
    assert decoder.held_bytes == PREFIX_SIZE


def test_single_bytes_are_held_as_bytes_and_not_as_objects() -> None:
    decoder = FrameDecoder()
    data = frame.encode(2, 21, 1, b"", bytes(100_000))
    for position in range(50_000):
        assert decoder.feed(data[position : position + 1]) == []
    assert decoder.held_bytes == 50_000
    (item,) = decoder.feed(data[50_000:])
    assert isinstance(item, Frame)
    assert len(item.body) == 100_000


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=80), max_size=10))
def test_arbitrary_bytes_end_in_frames_or_in_an_error(pieces: list[bytes]) -> None:
    decoder = FrameDecoder(frame_bytes_max=200, header_bytes_max=50)
    for piece in pieces:
        decoder.feed(piece)
        assert decoder.held_bytes <= 200


@settings(max_examples=300)
@given(st.lists(frames, min_size=1, max_size=4), st.data())
def test_damaged_frames_end_in_frames_or_in_an_error(items: list[Seen], data: st.DataObject) -> None:
    stream = bytearray(b"".join(encoded((*item[:5], item[5][:50])) for item in items))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(stream) - 1))
        stream[position] = data.draw(st.integers(0, 255))
    fed(bytes(stream), data.draw(st.lists(st.integers(0, 500), max_size=4)))
