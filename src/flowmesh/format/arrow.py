"""A batch as Arrow arrays that share its bytes. Needs the `arrow` extra; nothing imports it unasked."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from flowmesh.base.buffers import Buffer
from flowmesh.format.batch import Batch
from flowmesh.format.columns import BytesColumn, Columns, decode

TIMESTAMP = pa.timestamp("ns", tz="UTC")
HEADERS = pa.map_(pa.binary(), pa.binary())
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP, nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS, nullable=False),
    ]
)


_ALL = ("offset", "timestamp", "key", "value", "headers")


def to_arrow(batch: Batch, names: Sequence[str] = _ALL) -> pa.RecordBatch:
    """The named columns of a batch. Keys, values and headers are not copied; offsets and times are computed in C."""
    columns = decode(batch)
    makers = {"offset": _offsets, "timestamp": _times, "key": _keys, "value": _values, "headers": _headers}
    schema = SCHEMA if names is _ALL else pa.schema([SCHEMA.field(name) for name in names])
    return pa.RecordBatch.from_arrays([makers[name](columns) for name in names], schema=schema)


def _binary(column: BytesColumn, count: int) -> pa.Array:
    present = None if column.present is None else pa.py_buffer(column.present)
    return pa.Array.from_buffers(pa.binary(), count, [present, pa.py_buffer(column.offsets), pa.py_buffer(column.data)])


def _values(columns: Columns) -> pa.Array:
    return _binary(columns.values, columns.count)


def _keys(columns: Columns) -> pa.Array:
    return pa.nulls(columns.count, pa.binary()) if columns.keys is None else _binary(columns.keys, columns.count)


def _offsets(columns: Columns) -> pa.Array:
    return pc.add(_counting(columns.count), pa.scalar(columns.base_offset, pa.int64()))


_counted: list[pa.Array] = [pa.array([], pa.int64())]


def _counting(count: int) -> pa.Array:
    """0, 1, 2, … as int64. Kept and sliced, because making it costs more than everything else here together."""
    if len(_counted[0]) < count:
        ones = pa.repeat(pa.scalar(1, pa.int64()), max(count, 2 * len(_counted[0])))
        _counted[0] = pc.cumulative_sum(ones, start=-1)
    return _counted[0].slice(0, count)


def _times(columns: Columns) -> pa.Array:
    if columns.time_deltas is None:
        times = columns.base_time_ns.to_bytes(8, "little", signed=True) * columns.count
        return pa.Array.from_buffers(TIMESTAMP, columns.count, [None, pa.py_buffer(times)])
    deltas = pa.Array.from_buffers(pa.int64(), columns.count, [None, pa.py_buffer(columns.time_deltas)])
    return pc.add(deltas, pa.scalar(columns.base_time_ns, pa.int64())).view(TIMESTAMP)


def _headers(columns: Columns) -> pa.Array:
    """Put together from buffers, because `MapArray.from_arrays` costs several times as much."""
    if columns.header_bounds is None or columns.header_names is None or columns.header_values is None:
        bounds: Buffer = bytes(4 * (columns.count + 1))
        total, names, values = 0, _NO_BYTES, _NO_BYTES
    else:
        bounds, total = columns.header_bounds, columns.header_bounds[columns.count]
        names, values = _binary(columns.header_names, total), _binary(columns.header_values, total)
    pairs = pa.Array.from_buffers(_PAIR, total, [None], children=[names, values])
    return pa.Array.from_buffers(HEADERS, columns.count, [None, pa.py_buffer(bounds)], children=[pairs])


_NO_BYTES = pa.array([], pa.binary())
_PAIR = pa.struct([HEADERS.key_field, HEADERS.item_field])
