"""Rows as Spark hands them over, as columns of records: which columns there may be, and the partition of each row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from flowmesh.base.limits import HEADER_NAME_BYTES_MAX, RECORD_BYTES_MAX
from flowmesh.format.arrow import HEADERS, TIMESTAMP
from flowmesh.spark.errors import Condition, FlowMeshSparkError
from flowmesh.spark.json_rows import json_objects
from flowmesh.spark.key_hashes import partitions_of

_TEXT = (BinaryType, StringType)
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_TIMES = (TimestampType, TimestampNTZType)
KNOWN = {
    "value": "binary or string",
    "key": "binary or string",
    "headers": "array<struct<key: string, value: binary>>",
    "partition": "int",
    "timestamp": "timestamp",
}
_NAMES = ("key", "name")
"""What the first field of a header may be called; the second is `value`."""


class RowShape(NamedTuple):
    """What a write's columns are, by position."""

    columns: dict[str, int]
    json: tuple[int, ...]
    """Those that become the JSON in `value`."""


class RoutedRows(NamedTuple):
    """Records for one partition: columns `value`, and `key`, `headers` and `timestamp` where there are such."""

    partition: int
    rows: pa.RecordBatch


def row_shape(schema: StructType, *, as_json: bool) -> RowShape:
    """Checked before anything is written: names, types, and that there is a value."""
    found, others = {}, []
    for position, field in enumerate(schema.fields):
        name = field.name.lower()
        if name in found:
            raise _bad_schema(f"there are two columns '{field.name}'.")
        if name not in KNOWN or (as_json and name == "value"):
            others.append(position)
            continue
        if not _fits(name, field.dataType):
            raise _bad_schema(
                f"column '{field.name}' is {field.dataType.simpleString()}; it has to be {KNOWN[name]}.",
                "Cast it, or write all columns as one with option 'valueFormat' = 'json'." if name == "value" else None,
            )
        found[name] = position
    names = ", ".join(f"'{schema.fields[position].name}'" for position in others)
    if as_json and not others:
        raise _bad_schema("there is no column to make JSON of.", "Leave option 'valueFormat' out.")
    if not as_json and others:
        accepted = ", ".join(f"{name} ({kind})" for name, kind in KNOWN.items())
        raise _bad_schema(
            f"a record has no {names}. Columns may be {accepted}.",
            "Drop them, or write them as JSON with option 'valueFormat' = 'json'.",
        )
    if not as_json and "value" not in found:
        raise _bad_schema("there is no column 'value'.", "Name one so, or give option 'valueFormat' = 'json'.")
    return RowShape(found, tuple(others))


def _fits(name: str, kind: DataType) -> bool:
    match name:
        case "value" | "key":
            return isinstance(kind, _TEXT)
        case "partition":
            return isinstance(kind, _WHOLE)
        case "timestamp":
            return isinstance(kind, _TIMES)
    pair = kind.elementType if isinstance(kind, ArrayType) else None
    if not isinstance(pair, StructType) or len(pair.fields) != 2:
        return False
    first, second = pair.fields
    named = first.name.lower() in _NAMES and second.name.lower() == "value"
    return named and isinstance(first.dataType, _TEXT) and isinstance(second.dataType, _TEXT)


def _bad_schema(message: str, hint: str | None = None) -> FlowMeshSparkError:
    option = "valueFormat" if hint is not None and "valueFormat" in hint else None
    return FlowMeshSparkError(Condition.BAD_SCHEMA, message, option=option, hint=hint)


# --- in a task ----------------------------------------------------------------------------------------------------


def routed(batch: pa.RecordBatch, shape: RowShape, partitions: int, own: int) -> Iterator[RoutedRows]:
    """The records of a batch by partition, in their order: the column decides, else the key, else it is `own`."""
    if batch.num_rows == 0:
        return
    rows = _records(batch, shape)
    _require_sizes(rows)
    numbers = _numbers(batch, shape, rows, partitions, own)
    if numbers is None:
        yield RoutedRows(own, rows)
        return
    order = pc.sort_indices(numbers)  # stable
    runs = pc.value_counts(numbers)
    sizes = dict(zip(runs.field(0).to_pylist(), runs.field(1).to_pylist(), strict=True))
    if len(sizes) > 1:
        rows = rows.take(order)
    start = 0
    for number in sorted(sizes):
        yield RoutedRows(number, rows.slice(start, sizes[number]))
        start += sizes[number]


def _records(batch: pa.RecordBatch, shape: RowShape) -> pa.RecordBatch:
    columns = shape.columns
    if shape.json:
        value = json_objects([batch.column(at) for at in shape.json], [batch.schema.names[at] for at in shape.json])
    else:
        value = _binary(batch.column(columns["value"]))
    made = {"value": value}
    if "key" in columns:
        made["key"] = _binary(batch.column(columns["key"]))
    if "headers" in columns:
        made["headers"] = _headers(batch.column(columns["headers"]))
    if "timestamp" in columns:
        made["timestamp"] = _times(batch.column(columns["timestamp"]))
    return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))


def _binary(array: pa.Array) -> pa.Array:
    return array if pa.types.is_binary(array.type) else array.cast(pa.binary())


def _headers(array: pa.Array) -> pa.Array:
    """From `array<struct<…>>` to the map that a batch has, with nulls found out."""
    if array.null_count:
        array = pc.if_else(array.is_valid(), array, pa.scalar([], array.type))
    pairs, offsets = array.values, array.offsets
    names, values = _binary(pairs.field(0)), _binary(pairs.field(1))
    used = slice(offsets[0].as_py(), offsets[-1].as_py())
    if pairs[used].null_count or names[used].null_count or values[used].null_count:
        raise _bad_record("headers", "a header, its name or its value is null.", "Filter them, or coalesce them.")
    longest = pc.max(pc.binary_length(names[used])).as_py()
    if longest is not None and longest > HEADER_NAME_BYTES_MAX:
        raise _bad_record("headers", f"a name has {longest} bytes; the limit is {HEADER_NAME_BYTES_MAX}.")
    return pa.MapArray.from_arrays(offsets, names, values).cast(HEADERS)


def _times(array: pa.Array) -> pa.Array:
    if array.null_count:
        hint = "Leave the column out, or coalesce it: coalesce(timestamp, current_timestamp())."
        raise _bad_record("timestamp", "a time is null.", hint)
    try:
        return array.cast(pa.timestamp("ns", array.type.tz)).view(TIMESTAMP)
    except pa.ArrowInvalid:
        raise _bad_record(
            "timestamp", "a time is outside what nanoseconds since 1970 can hold (1677 to 2262)."
        ) from None


def _require_sizes(rows: pa.RecordBatch) -> None:
    if rows.nbytes <= RECORD_BYTES_MAX:
        return
    for name in ("value", "key"):
        if name in rows.schema.names:
            longest = pc.max(pc.binary_length(rows.column(name))).as_py() or 0
            if longest > RECORD_BYTES_MAX:
                raise _bad_record(name, f"a {name} has {longest} bytes; the limit of a record is {RECORD_BYTES_MAX}.")


def _numbers(
    batch: pa.RecordBatch, shape: RowShape, rows: pa.RecordBatch, partitions: int, own: int
) -> pa.Array | None:
    """The partition of each row; None when all are in `own`."""
    numbers = None
    if "key" in shape.columns and partitions > 1 and rows.column("key").null_count < len(rows):
        numbers = partitions_of(rows.column("key"), partitions).fill_null(own)
    if "partition" not in shape.columns:
        return numbers
    wanted = batch.column(shape.columns["partition"]).cast(pa.int64())
    found = pc.min_max(wanted).as_py()
    if found["min"] is not None and not 0 <= found["min"] <= found["max"] < partitions:
        odd = found["min"] if found["min"] < 0 else found["max"]
        raise _bad_record("partition", f"it is {odd}; the stream has partitions 0 to {partitions - 1}.")
    return pc.coalesce(wanted, pa.scalar(own, pa.int64()) if numbers is None else numbers.cast(pa.int64()))


def _bad_record(column: str, message: str, hint: str | None = None) -> FlowMeshSparkError:
    return FlowMeshSparkError(Condition.BAD_RECORD, f"column '{column}': {message}", hint=hint)
