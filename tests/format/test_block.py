"""Blocks and entries: the hash chain, the frame around a block, and every way to damage one."""

import hashlib
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.base.errors import CorruptData
from flowmesh.base.times import NANOSECONDS
from flowmesh.format import block
from flowmesh.format.checksum import crc32c
from tests.format.damage import HASHES, STAMPS, bit_flips, truncations
from tests.format.examples import ENTRY

Wrapping = Callable[[bytes], bytes | bytearray | memoryview]


@given(HASHES, STAMPS, st.integers(0, 2**40), st.binary(max_size=64), st.binary(max_size=200))
def test_entry_round_trip(previous: bytes, timestamp_ns: int, position: int, head: bytes, body: bytes) -> None:
    entry = block.encode_entry(previous, timestamp_ns, position, head, body)
    header, data = block.decode_prefix(entry), head + body
    assert len(entry) == block.entry_size(len(data)) == header.entry_length + block.LENGTH.size
    assert (header.header_length, header.version) == (block.HEADER_SIZE, block.HEADER_VERSION)
    assert (header.previous_hash, header.timestamp_ns) == (previous, timestamp_ns)
    assert (header.data_offset, header.data_length) == (position + block.PREFIX_SIZE, len(data))
    assert entry[block.PREFIX_SIZE : -block.CRC.size] == data
    assert block.crc_is_right(memoryview(entry))
    assert block.hash_is_right(header, data)
    assert entry[block.HASH] == header.hash
    assert entry[block.PREVIOUS_HASH] == previous


@given(HASHES, STAMPS, st.binary(max_size=100))
def test_hash_is_the_documented_one(previous: bytes, timestamp_ns: int, data: bytes) -> None:
    stamp = struct.pack("<QQ", timestamp_ns // NANOSECONDS, timestamp_ns % NANOSECONDS)
    expected = hashlib.sha256(previous + stamp + data).digest()
    assert block.block_hash(previous, timestamp_ns, data) == expected
    assert block.block_hash(previous, timestamp_ns, data[:7], data[7:]) == expected
    assert block.encode_entry(previous, timestamp_ns, 0, data[:7], data[7:])[block.HASH] == expected


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_body_may_be_any_buffer(wrap: Wrapping) -> None:
    entry = block.encode_entry(bytes(32), 5, 0, b"head", wrap(b"body"))
    assert entry == block.encode_entry(bytes(32), 5, 0, b"head", b"body")
    assert block.decode_prefix(wrap(b"before" + entry), 6) == block.decode_prefix(entry)


def test_every_bit_flip_is_seen_by_the_checksum() -> None:
    assert block.crc_is_right(memoryview(ENTRY))
    assert not any(block.crc_is_right(memoryview(flipped)) for flipped in bit_flips(ENTRY))


@given(st.binary(min_size=1, max_size=300), st.binary(min_size=4, max_size=4))
def test_a_checksum_is_right_when_it_is_that_of_all_before_it_and_only_then(data: bytes, other: bytes) -> None:
    right = block.CRC.pack(crc32c(data))
    assert block.crc_is_right(memoryview(data + right))
    assert block.crc_is_right(memoryview(data + other)) == (other == right)


def test_every_bit_flip_in_what_is_hashed_is_seen_by_the_hash() -> None:
    data_end = len(ENTRY) - block.CRC.size
    hashed = {*range(9, 89), *range(block.PREFIX_SIZE, data_end)}
    for number, flipped in enumerate(bit_flips(ENTRY)):
        header = block.decode_prefix(flipped)
        right = block.hash_is_right(header, flipped[block.PREFIX_SIZE : data_end])
        assert right == (number // 8 not in hashed)


def test_every_truncation_is_refused() -> None:
    for part in truncations(ENTRY):
        assert not block.crc_is_right(memoryview(part))
        if len(part) < block.PREFIX_SIZE:
            with pytest.raises(CorruptData):
                block.decode_prefix(part)
        else:
            header = block.decode_prefix(part)
            assert header.entry_length + block.LENGTH.size > len(part)


@pytest.mark.parametrize("position", [1, len(ENTRY), 10**9])
def test_a_position_without_room_for_a_header_is_refused(position: int) -> None:
    with pytest.raises(CorruptData):
        block.decode_prefix(ENTRY[: block.PREFIX_SIZE], position)


def test_an_instant_has_one_spelling() -> None:
    """The same instant with a full second in its nanoseconds hashes alike, and must not pass for the same block."""
    header = block.decode_prefix(ENTRY)
    data = ENTRY[block.PREFIX_SIZE : -block.CRC.size]
    respelled = header._replace(seconds=header.seconds - 1, nanoseconds=header.nanoseconds + NANOSECONDS)
    assert respelled.timestamp_ns == header.timestamp_ns
    assert not block.hash_is_right(respelled, data)


def test_a_timestamp_beyond_all_clocks_is_only_wrong() -> None:
    header = block.decode_prefix(ENTRY)
    assert not block.hash_is_right(header._replace(seconds=2**64 - 1, nanoseconds=2**64 - 1), b"")
    assert not block.hash_is_right(header._replace(seconds=2**64 - 1, nanoseconds=NANOSECONDS - 1), b"")


def test_block_id_is_eight_bytes_dot_thirty_two() -> None:
    assert block.block_id(bytes(range(32)), b"\xab" * 32) == "0001020304050607." + "ab" * 32
