"""The durable mark: sound and whole, or None."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.format import mark
from flowmesh.format.checksum import crc32c
from tests.format.damage import HASHES, U32, U64, bit_flips, truncations
from tests.format.examples import MARK

DATA = mark.encode(MARK)


@given(st.builds(mark.DurableMark, st.booleans(), U32, U64, U64, HASHES))
def test_round_trip(held: mark.DurableMark) -> None:
    data = mark.encode(held)
    assert len(data) == mark.SIZE
    assert mark.decode(data) == mark.decode(memoryview(data)) == held


def test_every_bit_flip_is_seen() -> None:
    assert mark.decode(DATA) == MARK
    assert all(mark.decode(flipped) is None for flipped in bit_flips(DATA))


def test_every_truncation_and_extension_is_seen() -> None:
    assert all(mark.decode(part) is None for part in (*truncations(DATA), DATA + b"\0", DATA + DATA))


@pytest.mark.parametrize("position, value", [(0, b"G"), (4, b"\x00"), (4, b"\x02")])
def test_a_right_checksum_alone_is_not_enough(position: int, value: bytes) -> None:
    fields = DATA[:position] + value + DATA[position + 1 : -4]
    assert mark.decode(fields + crc32c(fields).to_bytes(4, "little")) is None


def test_a_torn_rewrite_is_no_mark() -> None:
    """It is written in place without a sync: any beginning of the new with the rest of the old may be found."""
    new = mark.encode(MARK._replace(clean=False, position=MARK.position + 4096, end_offset=9, block_hash=b"\x07" * 32))
    for cut in range(len(DATA) + 1):
        assert mark.decode(new[:cut] + DATA[cut:]) in (None, MARK, mark.decode(new))
