"""The index file: sound and whole, or None."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.format import index
from flowmesh.format.checksum import crc32c
from tests.format.damage import HASHES, I64, U64, bit_flips, truncations
from tests.format.examples import INDEX, INDEX_COLUMNS, INDEX_HEADER

HEADERS = st.builds(index.IndexHeader, HASHES, U64, U64, HASHES, I64, I64, U64, U64)


def sealed(body: bytes) -> bytes:
    """With the right checksum, so that what is tested is what lies behind it."""
    return body + crc32c(body).to_bytes(4, "little")


@given(HEADERS, st.lists(st.tuples(U64, U64, I64), max_size=40))
def test_round_trip(header: index.IndexHeader, entries: list[tuple[int, int, int]]) -> None:
    offsets, positions = array("Q", [entry[0] for entry in entries]), array("Q", [entry[1] for entry in entries])
    times = array("q", [entry[2] for entry in entries])
    data = index.encode(header, offsets, positions, times)
    assert len(data) == index.HEADER_SIZE + index.ENTRY_SIZE * len(entries) + 4
    assert index.decode(data) == index.decode(memoryview(data)) == (header, offsets, positions, times)


def test_what_is_read_does_not_hold_on_to_the_file() -> None:
    data = bytearray(INDEX)
    held = index.decode(data)
    assert held is not None
    data.clear()
    assert held == (INDEX_HEADER, *INDEX_COLUMNS)


def test_every_bit_flip_is_seen() -> None:
    assert index.decode(INDEX) is not None
    assert all(index.decode(flipped) is None for flipped in bit_flips(INDEX))


def test_every_truncation_is_seen_even_with_the_right_checksum() -> None:
    for part in truncations(INDEX):
        assert index.decode(part) is None
    for body in truncations(INDEX[:-4]):
        assert index.decode(sealed(body)) is None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"FMINDEX\r" + INDEX[8:-4], id="magic"),
        pytest.param(INDEX[:8] + b"\x02" + INDEX[9:-4], id="version"),
        pytest.param(INDEX[:12] + b"\x02\0\0\0" + INDEX[16:-4], id="more entries than there are"),
        pytest.param(INDEX[:12] + b"\0\0\0\0" + INDEX[16:-4], id="fewer entries than there are"),
        pytest.param(INDEX[:12] + b"\xff\xff\xff\xff" + INDEX[16:-4], id="too many entries"),
        pytest.param(INDEX[:-4] + b"\0", id="longer"),
    ],
)
def test_a_right_checksum_alone_is_not_enough(body: bytes) -> None:
    assert index.decode(sealed(INDEX[:-4])) is not None
    assert index.decode(sealed(body)) is None
