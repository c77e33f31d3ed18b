"""Columns: those that every record has, those that `valueSchema` adds, and which of them a query gets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from flowmesh.spark.errors import Condition, FlowMeshSparkError, bad_option
from flowmesh.spark.options import StreamName
from flowmesh.spark.reading import RECORD_COLUMNS
from flowmesh.spark.values import ValueParser

COLUMNS = {
    "tenant": "STRING",
    "namespace": "STRING",
    "stream": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "key": "BINARY",
    "value": "BINARY",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "block_id": "STRING",
}
ERROR_COLUMN = "_error"
BESIDE_VALUES = ("partition", "offset", "timestamp", "key")
"""What comes before the typed columns unless `columns` says otherwise."""
_QUOTES = {"'": "'", '"': '"', "`": "`"}
_NOT_NULL = re.compile(r"\bNOT\s+NULL\b", re.IGNORECASE)


class Field(NamedTuple):
    """One field of a `valueSchema`: its name, and its whole declaration as DDL."""

    name: str
    ddl: str


# --- what a query is told -----------------------------------------------------------------------------------------


def ddl_of(values: Mapping[str, Any]) -> str:
    """The schema of a read as DDL, for Spark to parse. Everything about columns is checked here, by name."""
    fields = value_fields(values["valueSchema"]) if values["valueSchema"] is not None else []
    nested = values["valueColumn"]
    if nested is not None and not fields:
        raise bad_option("valueColumn", "there is no 'valueSchema' whose columns it could hold.")
    known = {name: f"{name} {kind}" for name, kind in COLUMNS.items()}
    if nested is not None:
        fields = [Field(nested, f"{_quoted(nested)} STRUCT<{', '.join(field.ddl for field in fields)}>")]
    for field in fields:
        if field.name in known or field.name == ERROR_COLUMN:
            hint = "Rename the field, or put them all into one struct column: option 'valueColumn' = 'data'."
            message = f"{field.name!r} is also a column of the record."
            raise FlowMeshSparkError(Condition.BAD_SCHEMA, message, option="valueSchema", hint=hint)
        known[field.name] = field.ddl
    chosen = list(COLUMNS)
    if fields:
        known[ERROR_COLUMN] = f"{ERROR_COLUMN} STRING"
        errors = [ERROR_COLUMN] if values["badRecords"] == "null" else []
        chosen = [*BESIDE_VALUES, *(field.name for field in fields), *errors]
    found = _chosen(values["columns"], known, chosen)
    if ERROR_COLUMN in found and not any(field.name in found for field in fields):
        raise bad_option("columns", f"{ERROR_COLUMN!r} says what is wrong with typed columns, and none is named.")
    return ", ".join(known[name] for name in found)


def _chosen(columns: Sequence[str] | None, known: Mapping[str, str], default: Sequence[str]) -> Sequence[str]:
    if columns is None:
        return default
    for name in columns:
        if name not in known:
            raise bad_option("columns", f"there is no column {name[:60]!r}.", f"There are {', '.join(known)}.")
    if len(set(columns)) < len(columns):
        raise bad_option("columns", "a column is named twice.")
    return columns


def value_fields(text: str) -> list[Field]:
    """The top-level fields of a schema, given as DDL or as the JSON of a StructType. Spark itself parses the types."""
    if text.lstrip().startswith("{"):
        try:
            found = StructType.fromJson(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise bad_option("valueSchema", f"this JSON is no schema: {error}") from None
        return [Field(f.name, f"{_quoted(f.name)} {f.dataType.simpleString()}") for f in found.fields]
    if _NOT_NULL.search(text):
        raise bad_option("valueSchema", "NOT NULL cannot be promised: a bad record has nulls.", "Leave it out.")
    fields = []
    for piece in _pieces(text):
        name = _first_name(piece)
        if not name:
            raise bad_option("valueSchema", f"{piece[:60]!r} is no field.", "Write DDL: 'id BIGINT, name STRING'.")
        fields.append(Field(name, piece))
    names = [field.name for field in fields]
    if not fields or len(set(names)) < len(names):
        raise bad_option("valueSchema", "it has no fields, or one of them twice.")
    return fields


def _pieces(text: str) -> list[str]:
    """Cut at the commas that stand in no bracket and no quotes."""
    pieces, begin, depth, quote = [], 0, 0, ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in _QUOTES:
            quote = letter
        elif letter in "<(":
            depth += 1
        elif letter in ">)":
            depth -= 1
        elif letter == "," and depth == 0:
            pieces.append(text[begin:place].strip())
            begin = place + 1
    pieces.append(text[begin:].strip())
    return [piece for piece in pieces if piece]


def _first_name(piece: str) -> str:
    match = re.match(r"`((?:[^`]|``)+)`\s*:?\s*\S|([^\s:`]+)\s*:?\s*\S", piece)
    if match is None:
        return ""
    return match[1].replace("``", "`") if match[1] else match[2]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# --- what a task makes --------------------------------------------------------------------------------------------


class Projection:
    """Turns the columns of records into the columns of a query. It travels to executors."""

    def __init__(self, schema: StructType, stream: StreamName, values: Mapping[str, Any]) -> None:
        self._schema = schema
        self._stream = stream
        self._nested: str | None = values["valueColumn"]
        self._fail = values["badRecords"] == "fail"
        typed = [field for field in schema.fields if field.name not in COLUMNS and field.name != ERROR_COLUMN]
        self._typed = StructType(typed)
        names = [field.name for field in schema.fields]
        if typed and values["valueSchema"] is None:
            raise _no_such_column(typed[0].name)
        if ERROR_COLUMN in names and not typed:
            raise _no_such_column(ERROR_COLUMN)
        for field in typed:
            _require_parsable(field.dataType, field.name)
        for field in schema.fields:
            expected = COLUMNS.get(field.name)
            if expected is not None and field.dataType != _TYPES[field.name]:
                message = f"column {field.name!r} is {expected}, not {field.dataType.simpleString()}."
                raise FlowMeshSparkError(Condition.BAD_SCHEMA, message, option="schema")
        self._parses = bool(typed)
        wanted = [name for name in RECORD_COLUMNS if name in names]
        if self._parses:
            wanted += [name for name in ("value", "offset") if name not in wanted]
        self.record_columns = tuple(wanted or ["offset"])
        """What has to be read of each record."""
        self._arrow: pa.Schema | None = None
        self._parser: ValueParser | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_arrow": None, "_parser": None}

    def apply(self, batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
        if self._arrow is None:
            self._arrow = to_arrow_schema(self._schema, timezone="UTC")
        rows = batch.num_rows
        found: dict[str, pa.Array] = dict(zip(batch.schema.names, batch.columns, strict=True))
        if self._parses:
            found |= self._parsed(found, partition)
        arrays = [found[f.name] if f.name in found else self._constant(f.name, partition, rows) for f in self._arrow]
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)

    def _constant(self, name: str, partition: int, rows: int) -> pa.Array:
        value = pa.scalar(partition, pa.int32()) if name == "partition" else pa.scalar(self._text(name), pa.string())
        return pa.repeat(value, rows)

    def _text(self, name: str) -> str:
        return self._stream.name if name == "stream" else str(getattr(self._stream, name))

    def _parsed(self, found: Mapping[str, pa.Array], partition: int) -> dict[str, pa.Array]:
        if self._parser is None:
            inner = self._typed.fields[0].dataType if self._nested is not None else self._typed
            assert isinstance(inner, StructType), "valueColumn holds a struct"
            self._parser = ValueParser(to_arrow_schema(inner, timezone="UTC"))
        typed, errors = self._parser.parse(found["value"])
        if self._fail and errors.null_count < len(errors):
            row = errors.is_valid().index(True).as_py()
            message = (
                f"stream {self._stream}, partition {partition}, offset {found['offset'][row].as_py()}: "
                f"the value does not fit 'valueSchema': {errors[row].as_py()}"
            )
            hint = "Option 'badRecords' = 'null' gives nulls and the reason in column '_error'."
            raise FlowMeshSparkError(Condition.BAD_RECORD, message, option="badRecords", hint=hint)
        columns = dict(zip(typed.schema.names, typed.columns, strict=True))
        if self._nested is not None:
            # A struct of nulls is what a bad record has, as from_json gives it.
            columns = {self._nested: _struct(typed, errors)}
        return {**columns, ERROR_COLUMN: errors}


def _struct(typed: pa.RecordBatch, errors: pa.Array) -> pa.Array:
    mask = errors.is_valid() if errors.null_count < len(errors) else None
    return pa.StructArray.from_arrays(typed.columns, fields=list(typed.schema), mask=mask)


def _no_such_column(name: str) -> FlowMeshSparkError:
    message = f"there is no column {name!r}; records have {', '.join(COLUMNS)}."
    hint = "Typed columns come from option 'valueSchema'."
    return FlowMeshSparkError(Condition.BAD_SCHEMA, message, option="valueSchema", hint=hint)


def _require_parsable(kind: types.DataType, name: str) -> None:
    if isinstance(kind, StructType):
        for field in kind.fields:
            _require_parsable(field.dataType, f"{name}.{field.name}")
    elif isinstance(kind, types.ArrayType):
        _require_parsable(kind.elementType, f"{name}[]")
    elif not isinstance(kind, _PARSABLE):
        message = f"{name} is {kind.simpleString()}, which is not read from JSON here."
        hint = "Take numbers, STRING, BOOLEAN, DATE, TIMESTAMP, ARRAY and STRUCT; or read 'value' and use from_json."
        raise FlowMeshSparkError(Condition.BAD_SCHEMA, message, option="valueSchema", hint=hint)


_PARSABLE = (
    types.IntegralType,
    types.FractionalType,
    types.StringType,
    types.BooleanType,
    types.DateType,
    types.TimestampType,
    types.TimestampNTZType,
)
_HEADER = StructType().add("key", types.StringType()).add("value", types.BinaryType())
_TYPES: dict[str, types.DataType] = {
    "tenant": types.StringType(),
    "namespace": types.StringType(),
    "stream": types.StringType(),
    "partition": types.IntegerType(),
    "offset": types.LongType(),
    "timestamp": types.TimestampType(),
    "key": types.BinaryType(),
    "value": types.BinaryType(),
    "headers": types.ArrayType(_HEADER),
    "block_id": types.StringType(),
}
