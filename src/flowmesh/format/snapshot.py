"""A machine's snapshot as a file: its state at one offset of its log. See docs/formats/snapshot.md."""

from __future__ import annotations

import struct
from typing import NamedTuple

from flowmesh.base.buffers import Buffer
from flowmesh.format.checksum import crc32c

MAGIC = b"FMSNAP\n\0"
VERSION = 1
_FIELDS = struct.Struct("<8sB3xI32sQ32sQ")
HEADER_SIZE = _FIELDS.size


class Snapshot(NamedTuple):
    state_version: int
    """The machine's own version of its state; a state it does not know is rebuilt from the log."""
    chain_hash: bytes
    end_offset: int
    block_hash: bytes
    """The block that ends at `end_offset`: a snapshot of a history that was cut away since is not used."""
    state: Buffer


def encode(snapshot: Snapshot) -> bytes:
    fields = _FIELDS.pack(MAGIC, VERSION, *snapshot[:4], len(snapshot.state))
    body = b"".join((fields, snapshot.state))
    return body + crc32c(body).to_bytes(4, "little")


def decode(data: Buffer) -> Snapshot | None:
    """None for anything that is not a sound snapshot of this version: the log can always tell the same again."""
    if len(data) < HEADER_SIZE + 4 or int.from_bytes(data[-4:], "little") != crc32c(data[:-4]):
        return None
    magic, version, state_version, chain_hash, end_offset, block_hash, size = _FIELDS.unpack_from(data)
    if magic != MAGIC or version != VERSION or len(data) != HEADER_SIZE + size + 4:
        return None
    return Snapshot(state_version, chain_hash, end_offset, block_hash, memoryview(data)[HEADER_SIZE:-4])
