"""Snapshots: sound and whole, or None."""

from hypothesis import given
from hypothesis import strategies as st

from flowmesh.format import snapshot
from flowmesh.format.checksum import crc32c
from tests.format.damage import HASHES, U32, U64, bit_flips, truncations
from tests.format.examples import SNAPSHOT

DATA = snapshot.encode(SNAPSHOT)


@given(st.builds(snapshot.Snapshot, U32, HASHES, U64, HASHES, st.binary(max_size=64)))
def test_round_trip(held: snapshot.Snapshot) -> None:
    found = snapshot.decode(snapshot.encode(held))
    assert found is not None
    assert found._replace(state=bytes(found.state)) == held


def test_every_bit_flip_is_seen() -> None:
    assert snapshot.decode(DATA) is not None
    assert all(snapshot.decode(flipped) is None for flipped in bit_flips(DATA))


def test_every_truncation_and_extension_is_seen() -> None:
    assert all(snapshot.decode(part) is None for part in (*truncations(DATA), DATA + b"\0", DATA + DATA))


def test_a_right_checksum_alone_is_not_enough() -> None:
    for position, value in ((0, b"G"), (8, b"\x02"), (88, b"\x02")):
        body = DATA[:position] + value + DATA[position + 1 : -4]
        assert snapshot.decode(body + crc32c(body).to_bytes(4, "little")) is None
