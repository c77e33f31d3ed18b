"""The durable mark: how far this log is known to be on the medium. See docs/formats/durable-mark.md."""

from __future__ import annotations

import struct
from typing import NamedTuple

from flowmesh.base.buffers import Buffer
from flowmesh.format.checksum import crc32c

MAGIC = b"FMDM"
VERSION = 1
_FIELDS = struct.Struct("<4sBB2xIQQ32s")
SIZE = _FIELDS.size + 4


class DurableMark(NamedTuple):
    """Always a lower bound: it is written after the fsync that it speaks of, and is never synced itself."""

    clean: bool
    segment: int
    position: int
    end_offset: int
    block_hash: bytes


def encode(mark: DurableMark) -> bytes:
    fields = _FIELDS.pack(MAGIC, VERSION, mark.clean, mark.segment, mark.position, mark.end_offset, mark.block_hash)
    return fields + crc32c(fields).to_bytes(4, "little")


def decode(data: Buffer) -> DurableMark | None:
    """None for anything that is not a sound mark: a bound that cannot be trusted is no bound."""
    if len(data) != SIZE or int.from_bytes(data[-4:], "little") != crc32c(data[:-4]):
        return None
    magic, version, clean, segment, position, end_offset, block_hash = _FIELDS.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        return None
    return DurableMark(bool(clean), segment, position, end_offset, block_hash)
