"""Replies as bytes. Those to appends are made in bulk: an acknowledgement is the commonest thing that a node says."""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import chain, repeat

import msgspec

from flowmesh.base.errors import FlowMeshError
from flowmesh.format import frame
from flowmesh.format.frame import FrameFlag, FrameKind
from flowmesh.operations.frames import error_header
from flowmesh.operations.messages import AppendReceipt, PartitionAppend, Reply

encode_message = msgspec.msgpack.Encoder().encode
_CORRELATION = struct.Struct("<I")
_NUMBER, _OFFSET = struct.Struct("<Q"), struct.Struct(">Q")
_MERGE = int(FrameFlag.MERGE)
_REPLY, _ERROR = int(FrameKind.REPLY), int(FrameKind.ERROR)


def reply(code: int, correlation: int, message: Reply) -> bytes:
    return frame.encode(_REPLY, code, correlation, encode_message(message))


def error(code: int, correlation: int, fault: FlowMeshError, *, kind: int = _ERROR, offset: int | None = None) -> bytes:
    return frame.encode(kind, code, correlation, error_header(fault, offset=offset))


def errors(code: int, correlation: int, count: int, fault: FlowMeshError) -> bytes:
    """The same error for `count` requests."""
    return _repeated(frame.encode(_ERROR, code, 0, error_header(fault)), correlation, count)


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
    """A reply for each of a run of single-record appends: one form, filled in with numbers by loops in C."""
    length, front, middle, back = _append_form(code, partition, durability)
    count = end_offset - base_offset
    first = correlation << 32 | length
    numbers = map(_NUMBER.pack, range(first, first + (count << 32), 1 << 32))
    bases = map(_OFFSET.pack, range(base_offset, end_offset))
    ends = map(_OFFSET.pack, range(base_offset + 1, end_offset + 1))
    return b"".join(chain.from_iterable(zip(numbers, repeat(front), bases, repeat(middle), ends, repeat(back))))


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


def _repeated(data: bytes, correlation: int, count: int) -> bytes:
    place = frame.CORRELATION
    before, after = data[: place.start], data[place.stop :]
    numbers = range(correlation, correlation + count)
    return b"".join([before + _CORRELATION.pack(number) + after for number in numbers])
