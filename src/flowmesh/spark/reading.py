"""From stored blocks to Arrow: many small blocks become few record batches, column by column, never record by record.

Where blocks come from, a node or a file, is in `fetching`; which ones are wanted, in `planning`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from flowmesh.base.buffers import Buffer
from flowmesh.base.limits import MIB
from flowmesh.format.batch import Batch, BatchKind
from flowmesh.format.columns import BytesColumn, Columns, decode

ROWS_PER_BATCH = 16 * 1024
BYTES_PER_BATCH = 2 * MIB
"""A record batch ends with the block that passes either. Larger ones were slower: they leave a core's cache."""
TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(pa.field("element", HEADER))
RECORD_COLUMNS = {
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
    "block_id": pa.string(),
}
"""What a record has wherever it lies, hot or cold; the stream's own columns are added later."""


class Stored(NamedTuple):
    """A block that was read and checked, as the source wants it."""

    batch: Batch
    block_id: str
    """Empty where nobody asked for it."""


class BlockPart(NamedTuple):
    """Rows `[low, high)` of a block."""

    columns: Columns
    low: int
    high: int
    block_id: str

    @property
    def rows(self) -> int:
        return self.high - self.low


def record_batches(stored: Iterable[Stored], start: int, end: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The records with offsets in `[start, end)`, with the columns `names` of RECORD_COLUMNS."""
    parts: list[BlockPart] = []
    rows = size = 0
    for batch, block_id in stored:
        header = batch.header
        if header.kind != BatchKind.RECORDS:
            continue
        low, high = max(start - header.base_offset, 0), min(end - header.base_offset, header.count)
        if low >= high:
            continue
        parts.append(BlockPart(decode(batch), low, high, block_id))
        rows += high - low
        size += header.body_bytes
        if rows >= ROWS_PER_BATCH or size >= BYTES_PER_BATCH:
            yield assembled(parts, names)
            parts, rows, size = [], 0, 0
    if parts:
        yield assembled(parts, names)


def assembled(parts: Sequence[BlockPart], names: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_MAKERS[name](parts) for name in names], names=list(names))


def time_span(batch: Batch) -> tuple[int, int]:
    """The oldest and the newest time in a block, in nanoseconds."""
    if batch.header.kind != BatchKind.RECORDS:
        return batch.header.max_time_ns, batch.header.max_time_ns
    columns = decode(batch)
    if columns.time_deltas is None:
        return columns.base_time_ns, columns.base_time_ns
    found = pc.min_max(_deltas(columns)).as_py()
    return columns.base_time_ns + found["min"], columns.base_time_ns + found["max"]


# --- columns ------------------------------------------------------------------------------------------------------


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _binary(column: BytesColumn, kind: pa.DataType, count: int) -> pa.Array:
    present = None if column.present is None else pa.py_buffer(column.present)
    return pa.Array.from_buffers(kind, count, [present, pa.py_buffer(column.offsets), pa.py_buffer(column.data)])


def _values(parts: Sequence[BlockPart]) -> pa.Array:
    return _joined([_cut(_binary(part.columns.values, _BINARY, part.columns.count), part) for part in parts])


def _keys(parts: Sequence[BlockPart]) -> pa.Array:
    return _joined(
        [
            pa.nulls(part.rows, _BINARY)
            if part.columns.keys is None
            else _cut(_binary(part.columns.keys, _BINARY, part.columns.count), part)
            for part in parts
        ]
    )


def _cut(array: pa.Array, part: BlockPart) -> pa.Array:
    return array if part.rows == len(array) else array.slice(part.low, part.rows)


def _offsets(parts: Sequence[BlockPart]) -> pa.Array:
    runs: list[list[int]] = []
    for part in parts:
        begin = part.columns.base_offset + part.low
        if runs and runs[-1][1] == begin:
            runs[-1][1] = begin + part.rows
        else:
            runs.append([begin, begin + part.rows])
    return _joined([pc.add(_counting(end - begin), pa.scalar(begin, pa.int64())) for begin, end in runs])


def _times(parts: Sequence[BlockPart]) -> pa.Array:
    return (
        _joined([_nanoseconds(part) for part in parts]).cast(pa.timestamp("ns", tz="UTC")).cast(TIMESTAMP, safe=False)
    )


def _nanoseconds(part: BlockPart) -> pa.Array:
    base = pa.scalar(part.columns.base_time_ns, pa.int64())
    if part.columns.time_deltas is None:
        return pa.repeat(base, part.rows)
    return pc.add(_cut(_deltas(part.columns), part), base)


def _deltas(columns: Columns) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), columns.count, [None, pa.py_buffer(columns.time_deltas)])


def _headers(parts: Sequence[BlockPart]) -> pa.Array:
    if all(part.columns.header_bounds is None for part in parts):
        return _lists(bytes(4 * (sum([part.rows for part in parts]) + 1)), _NO_HEADERS)
    return _joined([_cut(_block_headers(part.columns), part) for part in parts])


def _block_headers(columns: Columns) -> pa.Array:
    bounds, names, values = columns.header_bounds, columns.header_names, columns.header_values
    if bounds is None or names is None or values is None:
        return _lists(bytes(4 * (columns.count + 1)), _NO_HEADERS)
    total = bounds[columns.count]
    keys = _text(_binary(names, _BINARY, total))
    pairs = pa.Array.from_buffers(HEADER, total, [None], children=[keys, _binary(values, _BINARY, total)])
    return _lists(bounds, pairs)


def _lists(bounds: Buffer, pairs: pa.Array) -> pa.Array:
    count = len(memoryview(bounds).cast("B")) // 4 - 1
    return pa.Array.from_buffers(HEADERS, count, [None, pa.py_buffer(bounds)], children=[pairs])


def _text(names: pa.Array) -> pa.Array:
    """Names are bytes in the log; those that are no UTF-8 are shown as near as can be."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())


def _block_ids(parts: Sequence[BlockPart]) -> pa.Array:
    return _joined([pa.repeat(pa.scalar(part.block_id or None, pa.string()), part.rows) for part in parts])


_BINARY = pa.binary()
_NO_HEADERS = pa.array([], HEADER)
_counted: list[pa.Array] = [pa.array([], pa.int64())]


def _counting(count: int) -> pa.Array:
    """0, 1, 2, … as int64. Kept and sliced, because making it costs more than all the rest of a column."""
    if len(_counted[0]) < count:
        ones = pa.repeat(pa.scalar(1, pa.int64()), max(count, 2 * len(_counted[0])))
        _counted[0] = pc.cumulative_sum(ones, start=-1)
    return _counted[0].slice(0, count)


_MAKERS: dict[str, Callable[[Sequence[BlockPart]], pa.Array]] = {
    "offset": _offsets,
    "timestamp": _times,
    "key": _keys,
    "value": _values,
    "headers": _headers,
    "block_id": _block_ids,
}
