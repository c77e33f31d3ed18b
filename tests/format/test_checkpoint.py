"""Signed checkpoints: a signature that holds covers every field, whole and in its place."""

import json
from contextlib import suppress
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given

from flowmesh.base.errors import CorruptData, UnsupportedVersion
from flowmesh.format import checkpoint
from tests.format.damage import HASHES, STAMPS, U64, bit_flips, truncations
from tests.format.examples import CHECKPOINT, SIGNING_KEY, STORED

PUBLIC_KEY = SIGNING_KEY.public_key().public_bytes_raw()


def document(**changes: Any) -> bytes:
    return json.dumps({**json.loads(STORED["checkpoint"]), **changes}).encode()


def meaning(held: checkpoint.Checkpoint) -> tuple[bytes, int, bytes, int, bytes, bytes]:
    """A checkpoint without the spelling of its hex digits."""
    return (
        bytes.fromhex(held.chain_hash),
        held.end_offset,
        bytes.fromhex(held.block_hash),
        held.time_ns,
        bytes.fromhex(held.public_key),
        bytes.fromhex(held.signature),
    )


@given(HASHES, U64, HASHES, STAMPS)
def test_round_trip(chain_hash: bytes, end_offset: int, block_hash: bytes, time_ns: int) -> None:
    held = checkpoint.sign(SIGNING_KEY, chain_hash, end_offset, block_hash, time_ns)
    assert checkpoint.decode(checkpoint.encode(held), PUBLIC_KEY) == held
    assert meaning(held)[:4] == (chain_hash, end_offset, block_hash, time_ns)


def test_a_checkpoint_of_another_key_is_not_trusted() -> None:
    other = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
    held = checkpoint.sign(other, bytes(32), 1, bytes(32), 0)
    assert checkpoint.decode(checkpoint.encode(held)) == held
    with pytest.raises(CorruptData):
        checkpoint.decode(checkpoint.encode(held), PUBLIC_KEY)


def test_bytes_moved_from_one_field_into_the_next_are_refused() -> None:
    """The signed message is the same in both; only the lengths of the hashes tell them apart."""
    chain_hash, end_offset, block_hash, *_ = meaning(CHECKPOINT)
    run = chain_hash + end_offset.to_bytes(8, "little") + block_hash
    moved = document(
        chain_hash=run[:33].hex(), end_offset=int.from_bytes(run[33:41], "little"), block_hash=run[41:].hex()
    )
    with pytest.raises(CorruptData):
        checkpoint.decode(moved)


@pytest.mark.parametrize(
    "changes",
    [
        {"chain_hash": "00" * 32},
        {"chain_hash": "00" * 31},
        {"chain_hash": "zz" * 32},
        {"end_offset": 2},
        {"end_offset": -1},
        {"end_offset": 2**64},
        {"end_offset": 1.0},
        {"block_hash": "00" * 32},
        {"block_hash": ""},
        {"time_ns": 1},
        {"time_ns": -1},
        {"time_ns": 10**40},
        {"public_key": "00" * 32},
        {"public_key": "00" * 31},
        {"public_key": "ff" * 32},
        {"signature": "00" * 64},
        {"signature": ""},
        {"signature": None},
        {"more": 1},
    ],
)
def test_a_changed_field_is_refused(changes: dict[str, Any]) -> None:
    assert checkpoint.decode(document()) == CHECKPOINT
    with pytest.raises(CorruptData):
        checkpoint.decode(document(**changes))


def test_another_version_is_refused_as_such() -> None:
    with pytest.raises(UnsupportedVersion):
        checkpoint.decode(document(version=2))


def test_every_bit_flip_is_refused_or_changes_nothing() -> None:
    for flipped in bit_flips(STORED["checkpoint"]):
        with suppress(CorruptData, UnsupportedVersion):
            assert meaning(checkpoint.decode(flipped)) == meaning(CHECKPOINT)


def test_every_truncation_is_refused() -> None:
    for part in truncations(STORED["checkpoint"].rstrip()):
        with pytest.raises(CorruptData):
            checkpoint.decode(part)
