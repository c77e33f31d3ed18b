"""Arrow IPC streams as request bodies and answers. Needs the `arrow` extra; nothing imports it unasked.

What a client sends is checked before anything is taken from it: the schema, that no buffer is compressed (its size
would be the client's word alone), and then every offset.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flowmesh.api.http.record_forms import Rows
from flowmesh.api.http.selection import Selection
from flowmesh.base.errors import BadRequest, TooLarge
from flowmesh.base.limits import REQUEST_RECORDS_MAX
from flowmesh.base.times import NANOSECONDS
from flowmesh.format import arrow
from flowmesh.format.columns import TIME_BOUND

_HINT = "Columns: value, and where wanted key, timestamp and headers; binary or string, timestamp, map."
_UNIT_NS = {"s": NANOSECONDS, "ms": 1_000_000, "us": 1_000, "ns": 1}


def rows(data: bytes) -> Rows:
    try:
        return _rows(data)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise BadRequest(f"the body is no Arrow IPC stream: {str(error)[:200]}.", field="body", hint=_HINT)


def _rows(data: bytes) -> Rows:
    _require_plain(data)
    with pa.ipc.open_stream(pa.BufferReader(data)) as reader:
        _require_columns(reader.schema)
        batches = []
        count = 0
        for batch in reader:
            count += batch.num_rows
            if count > REQUEST_RECORDS_MAX:
                raise TooLarge(f"a request holds at most {REQUEST_RECORDS_MAX} records.", field="records")
            batch.validate(full=True)
            batches.append(batch)
        table = pa.Table.from_batches(batches, reader.schema)
    names = table.column_names
    return Rows(
        _bytes(table["value"]),
        _bytes(table["key"]) if "key" in names else None,
        _headers(table["headers"]) if "headers" in names else None,
        _times(table["timestamp"]) if "timestamp" in names else None,
    )


def _require_columns(schema: pa.Schema) -> None:
    if "value" not in schema.names:
        raise BadRequest("there is no column 'value'.", field="value", hint=_HINT)
    if len(set(schema.names)) != len(schema.names):
        raise BadRequest("a column is there twice.", field="body", hint=_HINT)
    for field in schema:
        fits = {
            "value": _is_bytes(field.type),
            "key": _is_bytes(field.type),
            "timestamp": pa.types.is_timestamp(field.type),
            "offset": pa.types.is_integer(field.type),  # as it was read elsewhere; not used
            "headers": pa.types.is_map(field.type)
            and _is_bytes(field.type.key_type)
            and _is_bytes(field.type.item_type),
        }.get(field.name)
        if fits is None:
            raise BadRequest(f"column {field.name[:80]!r} is unknown.", field=field.name[:80], hint=_HINT)
        if not fits:
            raise BadRequest(f"column {field.name!r} is {str(field.type)[:80]}.", field=field.name, hint=_HINT)


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind) or types.is_string(kind) or types.is_large_binary(kind) or types.is_large_string(kind)
    )


def _bytes(column: pa.ChunkedArray) -> list[bytes | None]:
    kind = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
    found: list[bytes | None] = (column if _is_plain(column.type) else column.cast(kind)).to_pylist()
    return found


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _times(column: pa.ChunkedArray) -> list[int | None]:
    unit = _UNIT_NS[column.type.unit]
    counts: list[int | None] = column.cast(pa.int64()).to_pylist()
    times = [None if count is None else count * unit for count in counts]
    if any(time is not None and not -TIME_BOUND < time < TIME_BOUND for time in times):
        raise BadRequest("a timestamp is outside what nanoseconds since 1970 can hold.", field="timestamp")
    return times


def _headers(column: pa.ChunkedArray) -> list[tuple[tuple[bytes, bytes], ...]]:
    """Names and values of all records at once, then cut; a map's own Python form would be made pair by pair."""
    found: list[tuple[tuple[bytes, bytes], ...]] = []
    for chunk in column.chunks:
        counts = pc.fill_null(pc.list_value_length(chunk.cast(pa.list_(_pair(chunk.type)))), 0).to_pylist()
        flat = chunk.cast(pa.list_(_pair(chunk.type))).flatten()
        names, contents = (_bytes(pa.chunked_array([part])) for part in flat.flatten())
        if None in contents:
            raise BadRequest("a header has no value.", field="headers")
        pairs: list[Any] = list(zip(names, contents, strict=True))
        start = 0
        for count in counts:
            found.append(tuple(pairs[start : start + count]))
            start += count
    return found


def _pair(kind: pa.MapType) -> pa.DataType:
    return pa.struct([kind.key_field, kind.item_field])


# --- what a message says about itself -----------------------------------------------------------------------------


def _require_plain(data: bytes) -> None:
    """Refuses dictionaries and compressed buffers: both unfold to what the sender says they do."""
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(data)):
        if message.type == "dictionary":
            raise BadRequest("dictionary-encoded columns are not taken.", field="body", hint=_HINT)
        if message.type == "record batch" and _is_compressed(message.metadata.to_pybytes()):
            raise BadRequest(
                "compressed Arrow buffers are not taken.",
                field="body",
                hint="Write the stream without compression, and send it with Content-Encoding: zstd.",
            )


_HEADER_SLOT = 2
_COMPRESSION_SLOT = 3


def _is_compressed(metadata: bytes) -> bool:
    """Whether the record batch in this flatbuffer names a compression: Message.header, then RecordBatch.compression."""
    message = _number(metadata, 0, 4)
    header = _slot(metadata, message, _HEADER_SLOT)
    if header is None:
        return False
    batch = header + _number(metadata, header, 4)
    return _slot(metadata, batch, _COMPRESSION_SLOT) is not None


def _slot(data: bytes, table: int, number: int) -> int | None:
    """Where a field of a flatbuffer table stands, or None when it is not there."""
    vtable = table - _number(data, table, 4, signed=True)
    place = 4 + 2 * number
    if place >= _number(data, vtable, 2):
        return None
    offset = _number(data, vtable + place, 2)
    return table + offset if offset else None


def _number(data: bytes, position: int, size: int, *, signed: bool = False) -> int:
    if not 0 <= position <= len(data) - size:
        raise ValueError("its metadata points outside itself")
    return int.from_bytes(data[position : position + size], "little", signed=signed)


# --- answers ------------------------------------------------------------------------------------------------------


class _Sink:
    """What Arrow writes, until it is taken away."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken


async def stream(found: AsyncIterator[Selection]) -> AsyncIterator[bytes]:
    sink = _Sink()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), arrow.SCHEMA) as writer:
        async for selection in found:
            whole = arrow.to_arrow(selection.block.batch)
            writer.write_batch(whole.slice(selection.begin, selection.end - selection.begin))
            yield sink.take()
    yield sink.take()
