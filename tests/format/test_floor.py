"""The floor file: it decides which segments recovery removes, so no digit of it may change unseen."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.base.errors import CorruptData, UnsupportedVersion
from flowmesh.base.limits import SEGMENT_NUMBER_MAX
from flowmesh.format import floor
from tests.format.damage import HASHES, OFFSETS, bit_flips, truncations
from tests.format.examples import FLOOR, STORED


def document(**changes: Any) -> bytes:
    return json.dumps({**json.loads(STORED["floor"]), **changes}).encode()


@given(st.integers(1, SEGMENT_NUMBER_MAX), OFFSETS, HASHES, HASHES)
def test_round_trip(first_segment: int, start_offset: int, segment_hash: bytes, block_hash: bytes) -> None:
    held = floor.Floor(first_segment, start_offset, segment_hash.hex(), block_hash.hex())
    assert floor.decode(floor.encode(held)) == held


def test_every_bit_flip_is_refused_or_changes_nothing() -> None:
    for flipped in bit_flips(STORED["floor"]):
        with suppress(CorruptData, UnsupportedVersion):
            assert floor.decode(flipped) == FLOOR


@pytest.mark.parametrize(
    "changes",
    [
        {"first_segment": 3},
        {"start_offset": 2},
        {"previous_segment_hash": "00" * 32},
        {"previous_block_hash": "00" * 32},
        {"hash": "00" * 32},
        {"hash": None},
        {"first_segment": 0},
        {"first_segment": SEGMENT_NUMBER_MAX + 1},
        {"first_segment": 2.0},
        {"start_offset": -1},
        {"start_offset": 10**40},
        {"previous_segment_hash": STORED["floor"].decode()},
        {"previous_segment_hash": FLOOR.previous_segment_hash.upper()},
        {"previous_segment_hash": FLOOR.previous_segment_hash + "00"},
        {"previous_segment_hash": 5},
        {"more": 1},
    ],
)
def test_a_changed_file_is_damage(changes: dict[str, Any]) -> None:
    assert floor.decode(document()) == FLOOR
    with pytest.raises(CorruptData):
        floor.decode(document(**changes))


@pytest.mark.parametrize(
    "name", ["first_segment", "start_offset", "previous_segment_hash", "previous_block_hash", "hash"]
)
def test_a_missing_field_is_damage(name: str) -> None:
    fields = json.loads(STORED["floor"])
    del fields[name]
    with pytest.raises(CorruptData):
        floor.decode(json.dumps(fields).encode())


def test_another_version_is_refused_as_such() -> None:
    with pytest.raises(UnsupportedVersion):
        floor.decode(document(version=2, hash="other"))


def test_every_truncation_is_refused() -> None:
    for part in truncations(STORED["floor"].rstrip()):
        with pytest.raises(CorruptData):
            floor.decode(part)
