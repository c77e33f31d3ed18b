"""Arrow arrays as a batch: buffers as they are, in one join. The way back is in `arrow`. Needs the `arrow` extra."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from flowmesh.base.buffers import Buffer
from flowmesh.base.errors import BadRequest
from flowmesh.base.limits import RECORD_HEADERS_MAX
from flowmesh.base.times import UNSTAMPED
from flowmesh.format.batch import ANONYMOUS, Batch, Codec, ColumnFlag, Producer, make
from flowmesh.format.columns import TIME_BOUND

_TIMES, _VALUE_NULLS, _KEYS, _KEY_NULLS, _HEADERS = map(int, ColumnFlag)
_OFFSET_BYTES = 4


class _ArrowPart(NamedTuple):
    """One column of bytes; what is empty is left out."""

    present: Buffer
    offsets: Buffer
    items: Buffer


_ABSENT = _ArrowPart(b"", b"", b"")


def from_arrow(
    values: pa.Array,
    *,
    keys: pa.Array | None = None,
    headers: pa.Array | None = None,
    times_ns: pa.Array | None = None,
    codec: Codec = Codec.NONE,
    producer: Producer = ANONYMOUS,
    schema_version: int = 0,
) -> Batch:
    """`values` and `keys` are binary, `headers` a map of binary to binary, `times_ns` int64; slices are welcome."""
    value_part = _bytes_part(values, "value")
    key_part = _bytes_part(keys, "key") if keys is not None and keys.null_count < len(keys) else _ABSENT
    bounds, names, contents = (b"", _ABSENT, _ABSENT) if headers is None else _header_parts(headers)
    base_time_ns, max_time_ns, deltas = (UNSTAMPED, UNSTAMPED, b"") if times_ns is None else _time_part(times_ns)
    flags = (
        (_TIMES if len(deltas) else 0)
        | (_VALUE_NULLS if len(value_part.present) else 0)
        | (_KEYS if len(key_part.offsets) else 0)
        | (_KEY_NULLS if len(key_part.present) else 0)
        | (_HEADERS if len(bounds) else 0)
    )
    fixed = (deltas, value_part.present, value_part.offsets, key_part.present, key_part.offsets, bounds)
    rest = (names.offsets, contents.offsets, key_part.items, names.items, contents.items, value_part.items)
    return make(
        b"".join(chain(fixed, rest)),
        flags=flags,
        count=len(values),
        base_time_ns=base_time_ns,
        max_time_ns=max_time_ns,
        producer=producer,
        schema_version=schema_version,
        codec=codec,
    )


def _bytes_part(array: pa.Array, field: str) -> _ArrowPart:
    if not pa.types.is_binary(array.type):
        raise BadRequest(f"{field} is {array.type}; it has to be binary.", field=field)
    present: Buffer = b""
    if array.null_count:
        present = _bitmap(array)
        array = array.fill_null(b"")
    return _ArrowPart(present, *_from_zero(array))


def _bitmap(array: pa.Array) -> bytes:
    """Bit i says that item i is there, padded to whole words."""
    bits = memoryview(array.is_valid().buffers()[1])
    size = (len(array) + 63) // 64 * 8
    return bytes(bits[:size]).ljust(size, b"\0")


def _from_zero(array: pa.Array) -> tuple[Buffer, Buffer]:
    """Offsets that begin at 0, and the bytes that they point into."""
    bounds = _bounds(array)
    first, last = bounds[0].as_py(), bounds[-1].as_py()
    data = array.buffers()[2]
    items = b"" if data is None else memoryview(data)[first:last]
    return _rebased(bounds, first), items


def _bounds(array: pa.Array) -> pa.Array:
    """The n + 1 offsets of a slice of an array of lists or of bytes."""
    count, offsets = len(array), array.buffers()[1]
    if offsets is None or offsets.size == 0:  # what Arrow allows an array of nothing to be
        return pa.array([0] * (count + 1), pa.int32())
    return pa.Array.from_buffers(pa.int32(), count + 1, [None, offsets], offset=array.offset)


def _rebased(bounds: pa.Array, first: int) -> Buffer:
    if first:
        bounds = pc.subtract(bounds, pa.scalar(first, pa.int32()))
    start = bounds.offset * _OFFSET_BYTES
    return memoryview(bounds.buffers()[1])[start : start + len(bounds) * _OFFSET_BYTES]


def _header_parts(headers: pa.Array) -> tuple[Buffer, _ArrowPart, _ArrowPart]:
    """Null headers are none."""
    if headers.null_count:
        headers = pc.if_else(headers.is_valid(), headers, pa.scalar([], headers.type))
    bounds = _bounds(headers)
    first, last = bounds[0].as_py(), bounds[-1].as_py()
    if first == last:
        return b"", _ABSENT, _ABSENT
    if last - first > RECORD_HEADERS_MAX:
        raise BadRequest(f"a batch holds at most {RECORD_HEADERS_MAX} headers, not {last - first}.", field="headers")
    # `keys` and `items` know nothing of the slice, unlike the offsets.
    names, contents = headers.keys.slice(first, last - first), headers.items.slice(first, last - first)
    if names.null_count or contents.null_count:
        raise BadRequest("a header's name and value are bytes; null is not allowed.", field="headers")
    return _rebased(bounds, first), _bytes_part(names, "headers"), _bytes_part(contents, "headers")


def _time_part(times_ns: pa.Array) -> tuple[int, int, Buffer]:
    if times_ns.null_count:
        raise BadRequest("a record's time is null.", field="timestamp")
    found = pc.min_max(times_ns).as_py()
    base, earliest, latest = times_ns[0].as_py(), found["min"], found["max"]
    if not -TIME_BOUND < earliest <= latest < TIME_BOUND:
        raise BadRequest("a record's time is outside what nanoseconds since 1970 can hold.", field="timestamp")
    if earliest == latest:
        return base, latest, b""
    deltas = pc.subtract(times_ns, pa.scalar(base, pa.int64()))
    return base, latest, memoryview(deltas.buffers()[1])[: 8 * len(deltas)]
