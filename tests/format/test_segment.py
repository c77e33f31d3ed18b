"""The segment header: what it says, and that nothing in it can change unseen."""

import hashlib

import pytest
from hypothesis import given

from flowmesh.base.errors import CorruptData
from flowmesh.format import segment
from tests.format.damage import HASHES, STAMPS, U64, bit_flips, truncations
from tests.format.examples import SEGMENT


@given(HASHES, HASHES, HASHES, U64, STAMPS)
def test_round_trip(chain: bytes, previous: bytes, block: bytes, base_offset: int, created_ns: int) -> None:
    data = segment.encode(chain, previous, block, base_offset, created_ns)
    assert len(data) == segment.SIZE
    assert segment.is_sound(data)
    header = segment.decode(data)
    assert header[:3] == (segment.MAGIC, segment.SIZE, segment.VERSION)
    assert (header.chain_hash, header.previous_segment_hash, header.previous_block_hash) == (chain, previous, block)
    assert (header.base_offset, header.created_ns) == (base_offset, created_ns)
    assert header.hash == hashlib.sha256(data[:-32]).digest()


def test_entries_after_the_header_do_not_matter() -> None:
    assert segment.is_sound(SEGMENT + b"entries")
    assert segment.decode(memoryview(SEGMENT + b"entries")) == segment.decode(SEGMENT)


def test_every_bit_flip_is_seen() -> None:
    assert segment.is_sound(SEGMENT)
    assert not any(segment.is_sound(flipped) for flipped in bit_flips(SEGMENT))


def test_every_truncation_is_refused() -> None:
    for part in truncations(SEGMENT):
        assert not segment.is_sound(part)
        with pytest.raises(CorruptData):
            segment.decode(part)
