"""Replies as bytes. Those to appends are made in bulk: an acknowledgement is the commonest thing that a node says."""

from __future__ import annotations

import struct
from functools import lru_cache

import msgspec

from flowmesh.base.errors import FlowMeshError
from flowmesh.format import frame
from flowmesh.format.frame import FrameFlag, FrameKind
from flowmesh.operations.frames import error_header
from flowmesh.operations.messages import AppendReceipt, PartitionAppend, Reply

encode_message = msgspec.msgpack.Encoder().encode
_NUMBER, _OFFSET = struct.Struct("<Q"), struct.Struct(">Q")
_BYTES = bytes(range(256))
_MERGE = int(FrameFlag.MERGE)
_REPLY, _ERROR = int(FrameKind.REPLY), int(FrameKind.ERROR)


def reply(code: int, correlation: int, message: Reply) -> bytes:
    return frame.encode(_REPLY, code, correlation, encode_message(message))


def error(code: int, correlation: int, fault: FlowMeshError, *, kind: int = _ERROR, offset: int | None = None) -> bytes:
    return frame.encode(kind, code, correlation, error_header(fault, offset=offset))


def errors(code: int, correlation: int, count: int, fault: FlowMeshError) -> bytes:
    """The same error for `count` requests."""
    first = frame.encode(_ERROR, code, correlation, error_header(fault))
    rows = bytearray(first * count)
    _count_up(rows, len(first), frame.CORRELATION.start, 1, correlation)
    return bytes(rows)


def merged_appends(
    code: int,
    correlation: int,
    partition: int,
    base_offset: int,
    end_offset: int,
    durability: str,
    *,
    flags: int = _MERGE,
) -> bytes:
    """One reply to a run of single-record appends: the n-th of them went to `base_offset + n`."""
    appended = AppendReceipt([PartitionAppend(partition, base_offset, end_offset)], durability)
    return frame.encode(_REPLY, code, correlation, encode_message(appended), flags=flags)


def single_appends(
    code: int, correlation: int, partition: int, base_offset: int, end_offset: int, durability: str
) -> bytes:
    """A reply for each of a run of single-record appends: the first one repeated, then its three numbers counted up."""
    length, front, middle, back = _append_form(code, partition, durability)
    number, base, end = correlation << 32 | length, _OFFSET.pack(base_offset), _OFFSET.pack(base_offset + 1)
    first = b"".join((_NUMBER.pack(number), front, base, middle, end, back))
    rows, size = bytearray(first * (end_offset - base_offset)), len(first)
    base_at = _NUMBER.size + len(front)
    end_at = base_at + _OFFSET.size + len(middle)
    _count_up(rows, size, frame.CORRELATION.start, 1, correlation)
    _count_up(rows, size, base_at + _OFFSET.size - 1, -1, base_offset)
    _count_up(rows, size, end_at + _OFFSET.size - 1, -1, base_offset + 1)
    return bytes(rows)


@lru_cache(maxsize=256)
def _append_form(code: int, partition: int, durability: str) -> tuple[int, bytes, bytes, bytes]:
    """Length of an append's reply, and the bytes around correlation id, base and end offset."""
    base, end = 2**64 - 1, 2**64 - 2
    data = merged_appends(code, 0, partition, base, end, durability, flags=0)
    before, _, rest = data.partition(_OFFSET.pack(base))
    middle, _, back = rest.partition(_OFFSET.pack(end))
    return len(data) - 4, before[8:], middle, back


def batch_append(
    code: int, correlation: int, partition: int, base_offset: int, end_offset: int, repeated: bool, durability: str
) -> bytes:
    appended = AppendReceipt([PartitionAppend(partition, base_offset, end_offset, repeated)], durability)
    return frame.encode(_REPLY, code, correlation, encode_message(appended))


def _count_up(rows: bytearray, size: int, lowest: int, step: int, first: int) -> None:
    """Makes of rows that all hold the number `first` such that hold `first`, `first + 1`, …

    `lowest` is where its lowest byte stands in a row, `step` leads to the next higher one. Written byte place by byte
    place, a slice over all rows each: twenty times cheaper than to pack the numbers one by one.
    """
    count, alike = len(rows) // size, 1
    while first // alike != (first + count - 1) // alike:
        rows[lowest::size] = _digits(first, count, alike)
        lowest, alike = lowest + step, alike * 256


def _digits(first: int, count: int, alike: int) -> bytes | bytearray:
    """For each of `count` numbers from `first` on the byte in which runs of `alike` numbers agree."""
    if alike == 1:
        low = first % 256
        return (_BYTES * ((low + count) // 256 + 1))[low : low + count]
    found = bytearray()
    while len(found) < count:
        digit, passed = divmod(first + len(found), alike)
        found += bytes((digit % 256,)) * min(alike - passed, count - len(found))
    return found
