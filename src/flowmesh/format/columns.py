"""The columns inside a batch: sequences of values, keys, headers and times to bytes, and back. docs/formats/batch.md.

Nothing here loops over records in Python where all records have a value: joins, sums and slices run in C.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, islice, repeat
from operator import itemgetter, sub
from typing import NamedTuple

from flowmesh.base.errors import BadRequest, CorruptData
from flowmesh.base.limits import RECORD_HEADERS_MAX
from flowmesh.base.times import UNSTAMPED
from flowmesh.format.batch import ANONYMOUS, Batch, BatchKind, Codec, ColumnFlag, Producer, make, unpacked_body

if sys.byteorder != "little":
    raise ImportError("FlowMesh maps little-endian columns in place and runs on little-endian machines only.")

Header = tuple[bytes, bytes]
_EMPTY = memoryview(b"")
# Plain numbers: an operator of IntFlag builds an enum member, which costs more than mapping a column does.
_TIMES, _VALUE_NULLS, _KEYS, _KEY_NULLS, _HEADERS = map(int, ColumnFlag)
TIME_BOUND = 2**62
"""Record times lie inside ± this, so that the difference of any two fits a delta."""


class Record(NamedTuple):
    offset: int
    time_ns: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class BytesColumn(NamedTuple):
    """`offsets[i]:offsets[i + 1]` of `data` is item i; bit i of `present`, where there is one, says it is not null."""

    present: memoryview | None
    offsets: memoryview
    data: memoryview

    def items(self) -> list[bytes]:
        """Every item as bytes; nulls as empty ones."""
        bounds = self.offsets.tolist()
        return list(map(bytes(self.data).__getitem__, map(slice, bounds, islice(bounds, 1, None))))

    def nullable_items(self) -> list[bytes | None]:
        items: list[bytes | None] = list(self.items())
        if self.present is not None:
            bits = reversed(f"{int.from_bytes(self.present, 'little'):0{8 * len(self.present)}b}")
            return [item if bit == "1" else None for item, bit in zip(items, bits, strict=False)]
        return items


class Columns(NamedTuple):
    base_offset: int
    base_time_ns: int
    count: int  # type: ignore[assignment]  # it hides tuple.count, which nobody needs here
    time_deltas: memoryview | None
    values: BytesColumn
    keys: BytesColumn | None
    header_bounds: memoryview | None
    header_names: BytesColumn | None
    header_values: BytesColumn | None

    def times(self) -> list[int]:
        if self.time_deltas is None:
            return [self.base_time_ns] * self.count
        return list(map(self.base_time_ns.__add__, self.time_deltas.tolist()))

    def headers(self) -> Iterable[tuple[Header, ...]]:
        if self.header_bounds is None or self.header_names is None or self.header_values is None:
            return repeat((), self.count)
        pairs = tuple(zip(self.header_names.items(), self.header_values.items(), strict=True))
        bounds = self.header_bounds.tolist()
        return map(pairs.__getitem__, map(slice, bounds, islice(bounds, 1, None)))

    def records(self) -> list[Record]:
        keys: Iterable[bytes | None] = repeat(None) if self.keys is None else self.keys.nullable_items()
        offsets = range(self.base_offset, self.base_offset + self.count)
        return list(map(Record, offsets, self.times(), keys, self.values.nullable_items(), self.headers()))


def encode(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Sequence[Header]] | None = None,
    times_ns: Sequence[int] | None = None,
    kind: BatchKind = BatchKind.RECORDS,
    codec: Codec = Codec.NONE,
    producer: Producer = ANONYMOUS,
    schema_version: int = 0,
) -> Batch:
    """One batch of `len(values)` records. Without times the log stamps all of them at the append."""
    count = len(values)
    for name, column in (("keys", keys), ("headers", headers), ("times_ns", times_ns)):
        if column is not None and len(column) != count:
            raise BadRequest(f"there are {len(column)} {name} for {count} values.", field=name)
    base_time_ns, max_time_ns, time_deltas = _encode_times(times_ns)
    value_part = _encode_bytes(values, "values")
    key_part = _encode_bytes(keys, "keys") if keys is not None else _ABSENT
    header_bounds, name_part, header_part = _encode_headers(headers)
    flags = (
        (_TIMES if time_deltas else 0)
        | (_VALUE_NULLS if value_part.present else 0)
        | (_KEYS if key_part.offsets else 0)
        | (_KEY_NULLS if key_part.present else 0)
        | (_HEADERS if header_bounds else 0)
    )
    values_and_keys = (value_part.present, value_part.offsets, key_part.present, key_part.offsets)
    fixed = (time_deltas, *values_and_keys, header_bounds, name_part.offsets, header_part.offsets)
    body = _join(chain(fixed, key_part.items, name_part.items, header_part.items, value_part.items))
    return make(
        body,
        kind=kind,
        flags=flags,
        count=count,
        base_time_ns=base_time_ns,
        max_time_ns=max_time_ns,
        producer=producer,
        schema_version=schema_version,
        codec=codec,
    )


def _encode_times(times_ns: Sequence[int] | None) -> tuple[int, int, bytes]:
    if not times_ns:
        return UNSTAMPED, UNSTAMPED, b""
    base, latest, earliest = times_ns[0], max(times_ns), min(times_ns)
    if not -TIME_BOUND < earliest <= latest < TIME_BOUND:
        raise BadRequest("a record's time is outside what nanoseconds since 1970 can hold.", field="times_ns")
    if earliest == latest:
        return base, latest, b""
    return base, latest, struct.pack(f"<{len(times_ns)}q", *map(sub, times_ns, repeat(base)))


class _Part(NamedTuple):
    """One column on its way out; its items are joined with everything else in a single copy."""

    present: bytes
    """Bits of what is not null, padded to 8 bytes; empty when nothing is null."""
    offsets: bytes
    items: Sequence[bytes]


_ABSENT = _Part(b"", b"", ())


def _join(pieces: Iterable[bytes]) -> bytes:
    try:
        return b"".join(pieces)
    except TypeError as error:
        raise BadRequest(f"keys, values and headers are bytes: {error}", field="records") from error


def _encode_bytes(items: Sequence[bytes | None], field: str) -> _Part:
    present = b""
    try:
        bounds = list(accumulate(map(len, items), initial=0))  # type: ignore[arg-type]
        filled: Sequence[bytes] = items  # type: ignore[assignment]
    except TypeError:
        filled = [b"" if item is None else item for item in items]
        bits = "".join(["0" if item is None else "1" for item in reversed(items)])
        present = int(bits, 2).to_bytes(_bitmap_bytes(len(items)), "little")
        try:
            bounds = list(accumulate(map(len, filled), initial=0))
        except TypeError as error:
            raise BadRequest(f"{field} are bytes or None: {error}", field=field) from error
    if bounds[-1] > 2**31 - 1:
        raise BadRequest(f"the {field} of one batch are over 2 GiB.", field=field)
    return _Part(present, struct.pack(f"<{len(bounds)}i", *bounds), filled)


def _encode_headers(headers: Sequence[Sequence[Header]] | None) -> tuple[bytes, _Part, _Part]:
    pairs = list(chain.from_iterable(headers)) if headers is not None else []
    if headers is None or not pairs:
        return b"", _ABSENT, _ABSENT
    if len(pairs) > RECORD_HEADERS_MAX:
        raise BadRequest(f"a batch holds at most {RECORD_HEADERS_MAX} headers, not {len(pairs)}.", field="headers")
    bounds = struct.pack(f"<{len(headers) + 1}i", *accumulate(map(len, headers), initial=0))
    names = _encode_bytes(list(map(itemgetter(0), pairs)), "headers")
    values = _encode_bytes(list(map(itemgetter(1), pairs)), "headers")
    if names.present or values.present:
        raise BadRequest("a header's name and value are bytes; None is not allowed.", field="headers")
    return bounds, names, values


def _bitmap_bytes(count: int) -> int:
    return (count + 63) // 64 * 8


class _Cursor:
    """Takes pieces off the front of a body and refuses to go past its end."""

    def __init__(self, body: memoryview) -> None:
        self.body = body
        self.position = 0

    def take(self, size: int) -> memoryview:
        end = self.position + size
        if size < 0 or end > len(self.body):
            raise CorruptData(f"a batch's columns end at {end}, its body at {len(self.body)}.")
        piece = self.body[self.position : end]
        self.position = end
        return piece

    def offsets(self, count: int) -> memoryview:
        view = self.take(4 * (count + 1)).cast("i")
        if view[0] != 0 or view[count] < 0:
            raise CorruptData("a column's offsets do not start at 0.")
        return view


def decode(batch: Batch) -> Columns:
    """Views into the batch's own bytes. Sizes are checked here; `check` also walks the offsets of foreign senders."""
    header = batch.header
    if header.kind == BatchKind.FOREIGN:
        raise BadRequest("a foreign batch has no columns; read its bytes.", field="kind")
    cursor, count, flags = _Cursor(unpacked_body(batch)), header.count, header.flags
    deltas = cursor.take(8 * count).cast("q") if flags & _TIMES else None
    value_nulls = cursor.take(_bitmap_bytes(count)) if flags & _VALUE_NULLS else None
    value_offsets = cursor.offsets(count)
    key_nulls = cursor.take(_bitmap_bytes(count)) if flags & _KEY_NULLS else None
    key_offsets = cursor.offsets(count) if flags & _KEYS else None
    bounds = names = header_values = None
    if flags & _HEADERS:
        bounds = cursor.offsets(count)
        names = BytesColumn(None, cursor.offsets(bounds[count]), _EMPTY)
        header_values = BytesColumn(None, cursor.offsets(bounds[count]), _EMPTY)
    keys = None
    if key_offsets is not None:
        keys = BytesColumn(key_nulls, key_offsets, cursor.take(key_offsets[count]))
    if bounds is not None and names is not None and header_values is not None:
        names = names._replace(data=cursor.take(names.offsets[bounds[count]]))
        header_values = header_values._replace(data=cursor.take(header_values.offsets[bounds[count]]))
    values = BytesColumn(value_nulls, value_offsets, cursor.take(value_offsets[count]))
    if cursor.position != len(cursor.body):
        raise CorruptData(f"a batch's columns end at {cursor.position}, its body at {len(cursor.body)}.")
    base_time_ns, base_offset = header.base_time_ns, header.base_offset
    return Columns(base_offset, base_time_ns, count, deltas, values, keys, bounds, names, header_values)


def check(batch: Batch) -> Columns:
    """`decode`, and every offset ascends: after this no reader can be led outside the body. For what clients send."""
    columns = decode(batch)
    for column in (columns.values, columns.keys, columns.header_names, columns.header_values):
        if column is not None:
            _require_ascending(column.offsets)
    if columns.header_bounds is not None:
        _require_ascending(columns.header_bounds)
    _require_times(columns, batch.header.max_time_ns)
    return columns


def _require_times(columns: Columns, max_time_ns: int) -> None:
    base, deltas = columns.base_time_ns, columns.time_deltas
    if deltas is None:
        earliest = latest = base
    else:
        numbers = deltas.tolist()
        earliest, latest = base + min(numbers), base + max(numbers)
    if latest != max_time_ns:
        raise CorruptData("a batch's greatest time is not the one that its header says.")
    if (base != UNSTAMPED or deltas is not None) and not -TIME_BOUND < earliest <= latest < TIME_BOUND:
        raise CorruptData("a batch has a time outside what nanoseconds since 1970 can hold.")


def _require_ascending(offsets: memoryview) -> None:
    bounds = offsets.tolist()
    if sorted(bounds) != bounds:
        raise CorruptData("a column's offsets do not ascend.")
