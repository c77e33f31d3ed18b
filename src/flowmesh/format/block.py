"""Block header v1, and the entry that carries one block in a segment. See docs/formats/block.md and entry.md."""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from flowmesh.base.buffers import Buffer
from flowmesh.base.errors import CorruptData
from flowmesh.base.times import NANOSECONDS
from flowmesh.format.checksum import crc32c

HEADER_VERSION = 1
HEADER = struct.Struct("<IB32s32sQQQQ")
HEADER_SIZE = HEADER.size
LENGTH = struct.Struct("<I")
CRC = struct.Struct("<I")
PREFIX = struct.Struct("<IIB32s32sQQQQ")
PREFIX_SIZE = PREFIX.size
"""Entry length and block header: where the data begins inside an entry."""
OVERHEAD = PREFIX_SIZE + CRC.size
"""What an entry takes beside its data."""
CRC_OF_SUMMED = crc32c(CRC.pack(crc32c(b"")))
"""The CRC32C of anything that is followed by its own CRC32C, and of nothing else of its length with the same front."""
_TIMESTAMP = struct.Struct("<QQ")


class BlockHeader(NamedTuple):
    entry_length: int
    header_length: int
    version: int
    hash: bytes
    previous_hash: bytes
    seconds: int
    nanoseconds: int
    data_offset: int
    data_length: int

    @property
    def timestamp_ns(self) -> int:
        return self.seconds * NANOSECONDS + self.nanoseconds


def block_hash(previous_hash: Buffer, timestamp_ns: int, *data: Buffer) -> bytes:
    """SHA-256 over previous hash, timestamp and data: content, order and time in one."""
    digest = hashlib.sha256(previous_hash)
    digest.update(_TIMESTAMP.pack(timestamp_ns // NANOSECONDS, timestamp_ns % NANOSECONDS))
    for part in data:
        digest.update(part)
    return digest.digest()


def block_id(segment_hash: bytes, hash_of_block: bytes) -> str:
    return f"{segment_id(segment_hash)}.{hash_of_block.hex()}"


def segment_id(segment_hash: bytes) -> str:
    """The part of a block's id that all blocks of its segment share."""
    return segment_hash[:8].hex()


def encode_entry(previous_hash: bytes, timestamp_ns: int, position: int, head: bytes, body: Buffer) -> bytes:
    """One entry whose data is `head` followed by `body`, to be written at `position`. The block's hash is at HASH."""
    length = len(head) + len(body)
    seconds, nanoseconds = divmod(timestamp_ns, NANOSECONDS)
    digest = hashlib.sha256(b"".join((previous_hash, _TIMESTAMP.pack(seconds, nanoseconds), head)))
    digest.update(body)
    prefix = PREFIX.pack(
        HEADER_SIZE + length + CRC.size,
        HEADER_SIZE,
        HEADER_VERSION,
        digest.digest(),
        previous_hash,
        seconds,
        nanoseconds,
        position + PREFIX_SIZE,
        length,
    )
    front = prefix + head
    return b"".join((front, body, CRC.pack(crc32c(body, crc32c(front)))))


HASH = slice(9, 41)
"""Where the block's hash stands inside an entry."""
PREVIOUS_HASH = slice(41, 73)


def entry_size(data_length: int) -> int:
    return data_length + OVERHEAD


def decode_prefix(data: Buffer, position: int = 0) -> BlockHeader:
    try:
        return BlockHeader._make(PREFIX.unpack_from(data, position))
    except struct.error as error:
        raise CorruptData(f"an entry ends inside its first {PREFIX_SIZE} bytes.") from error


def crc_is_right(entry: memoryview) -> bool:
    """Whether the checksum at the end of `entry` covers all that stands before it."""
    return crc32c(entry) == CRC_OF_SUMMED and len(entry) > CRC.size


def hash_is_right(header: BlockHeader, data: Buffer) -> bool:
    # One instant has one spelling: a full second in the nanoseconds would be a second header with the same hash.
    if header.nanoseconds >= NANOSECONDS:
        return False
    return block_hash(header.previous_hash, header.timestamp_ns, data) == header.hash
