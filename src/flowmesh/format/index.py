"""The sparse index of one segment as a file: offset, position and time columns. See docs/formats/index.md."""

from __future__ import annotations

import struct
from array import array
from typing import NamedTuple

from flowmesh.base.buffers import Buffer
from flowmesh.base.limits import INDEX_ENTRIES_MAX
from flowmesh.format.checksum import crc32c

MAGIC = b"FMINDEX\n"
VERSION = 1
_FIELDS = struct.Struct("<8sB3xI32sQQ32sqqQQ")
HEADER_SIZE = _FIELDS.size
ENTRY_SIZE = 24


class IndexHeader(NamedTuple):
    """What the index knows of its segment up to `covered_position`; for a closed segment that is all of it."""

    segment_hash: bytes
    covered_position: int
    end_offset: int
    last_block_hash: bytes
    max_time_ns: int
    last_timestamp_ns: int
    blocks: int
    records: int


class IndexFile(NamedTuple):
    header: IndexHeader
    offsets: array[int]
    positions: array[int]
    times: array[int]


def encode(header: IndexHeader, offsets: array[int], positions: array[int], times: array[int]) -> bytes:
    """`times[i]` is the greatest record time *before* entry i, so that a search for a time starts early enough."""
    fields = _FIELDS.pack(MAGIC, VERSION, len(offsets), *header)
    body = b"".join((fields, offsets.tobytes(), positions.tobytes(), times.tobytes()))
    return body + crc32c(body).to_bytes(4, "little")


def decode(data: Buffer) -> IndexFile | None:
    """None for anything that is not a sound index of this version: it will be made anew from the segment."""
    if len(data) < HEADER_SIZE + 4 or int.from_bytes(data[-4:], "little") != crc32c(data[:-4]):
        return None
    magic, version, count, *fields = _FIELDS.unpack_from(data)
    if magic != MAGIC or version != VERSION or count > INDEX_ENTRIES_MAX:
        return None
    if len(data) != HEADER_SIZE + count * ENTRY_SIZE + 4:
        return None
    view = memoryview(data)
    columns = [view[HEADER_SIZE + 8 * count * column :][: 8 * count] for column in range(3)]
    return IndexFile(IndexHeader._make(fields), *map(_column, "QQq", columns))


def _column(typecode: str, data: memoryview) -> array[int]:
    column = array(typecode)
    column.frombytes(data)
    return column
