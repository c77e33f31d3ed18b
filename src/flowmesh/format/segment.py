"""The header that opens every segment file and ties it to the chain. See docs/formats/segment.md."""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from flowmesh.base.buffers import Buffer
from flowmesh.base.errors import CorruptData
from flowmesh.base.times import NANOSECONDS
from flowmesh.format import timestamps

MAGIC = b"FMSEGMT\n"
VERSION = 1
_FIELDS = struct.Struct("<8sIB32s32s32sQQQ")
SIZE = _FIELDS.size + 32
"""Bytes before the first entry."""
NO_HASH = bytes(32)


class SegmentHeader(NamedTuple):
    magic: bytes
    size: int
    version: int
    chain_hash: bytes
    previous_segment_hash: bytes
    previous_block_hash: bytes
    base_offset: int
    seconds: int
    nanoseconds: int
    hash: bytes

    @property
    def created_ns(self) -> int:
        return timestamps.join(self.seconds, self.nanoseconds)


def encode(
    chain_hash: bytes, previous_segment_hash: bytes, previous_block_hash: bytes, base_offset: int, created_ns: int
) -> bytes:
    fields = _FIELDS.pack(
        MAGIC,
        SIZE,
        VERSION,
        chain_hash,
        previous_segment_hash,
        previous_block_hash,
        base_offset,
        *divmod(created_ns, NANOSECONDS),
    )
    return fields + hashlib.sha256(fields).digest()


def decode(data: Buffer) -> SegmentHeader:
    """The header as it stands; whether it is sound, and whether it fits the chain, is for the caller to judge."""
    if len(data) < SIZE:
        raise CorruptData(f"a segment begins with {SIZE} bytes of header, this one has {len(data)}.")
    return SegmentHeader._make((*_FIELDS.unpack_from(data), bytes(data[_FIELDS.size : SIZE])))


def is_sound(data: Buffer) -> bool:
    """Whether the hash covers the fields: one flipped bit anywhere in the header says no."""
    return len(data) >= SIZE and hashlib.sha256(data[: _FIELDS.size]).digest() == bytes(data[_FIELDS.size : SIZE])
