"""JSON in values to typed columns: one parse for a whole batch, and smaller ones only where a record does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

SINGLE_ROWS = 32
"""A range of so many records that has a bad one is parsed record by record; a longer one is halved."""
REASON_CHARS_MAX = 300
_ROW = re.compile(r" in row \d+$")
_EMPTY = b"{}"


class ValueParser:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        parsed = pa.schema([pa.field(field.name, _parsed_type(field.type, "us")) for field in schema])
        finer = pa.schema([pa.field(field.name, _parsed_type(field.type, "ns")) for field in schema])
        self._attempts = [parsed] if parsed == finer else [parsed, finer]
        """Times with nine digits of a second need the finer one, which in turn ends in the year 2262."""

    def parse(self, values: pa.Array) -> tuple[pa.RecordBatch, pa.Array]:
        """The typed columns, and for each record what was wrong with it, or null. A null value is all nulls."""
        filled = values.fill_null(_EMPTY) if values.null_count else values
        pieces = list(self._pieces(filled)) if len(filled) else []
        if not pieces:
            return pa.RecordBatch.from_pylist([], self._schema), pa.array([], pa.string())
        batches, errors = zip(*pieces, strict=True)
        if len(batches) == 1:
            return batches[0], errors[0]
        columns = [pa.concat_arrays([batch.column(row) for batch in batches]) for row in range(len(self._schema))]
        return _batch(columns, self._schema), pa.concat_arrays(errors)

    def _pieces(self, values: pa.Array) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        rows = len(values)
        found = self._together(values)
        if found is not None:
            yield found, pa.nulls(rows, pa.string())
        elif rows > SINGLE_ROWS:
            yield from self._pieces(values.slice(0, rows // 2))
            yield from self._pieces(values.slice(rows // 2))
        else:
            for value in values:
                yield self._alone(value.as_py())

    def _together(self, values: pa.Array) -> pa.RecordBatch | None:
        """All records in one parse, or None when one of them does not fit.

        Each must begin and end as an object, and between two stands a line feed, which no JSON string may hold: so no
        two can be taken for one, and the number of rows tells whether one was taken for two.
        """
        braced = pc.and_(pc.starts_with(values, pattern=b"{"), pc.ends_with(values, pattern=b"}"))
        if not pc.all(braced).as_py():
            return None
        lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), b"\n")
        try:
            return self._parse(lines[0].as_buffer(), len(values))
        except pa.ArrowInvalid:
            return None

    def _alone(self, value: bytes) -> tuple[pa.RecordBatch, pa.Array]:
        reason: str | None = None
        text = value.strip()
        try:
            if not text.startswith(b"{"):
                raise pa.ArrowInvalid("it is not a JSON object.")
            found = self._parse(pa.py_buffer(text), 1)
        except pa.ArrowInvalid as error:
            reason = _ROW.sub("", str(error))[:REASON_CHARS_MAX]
            found = _batch([pa.nulls(1, field.type) for field in self._schema], self._schema)
        return found, pa.array([reason], pa.string())

    def _parse(self, data: pa.Buffer, rows: int) -> pa.RecordBatch:
        last: pa.ArrowInvalid | None = None
        for schema in self._attempts:
            try:
                return self._parse_as(data, rows, schema)
            except pa.ArrowInvalid as error:
                last = last or error
        assert last is not None
        raise last

    def _parse_as(self, data: pa.Buffer, rows: int, schema: pa.Schema) -> pa.RecordBatch:
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        if table.num_rows != rows:
            raise pa.ArrowInvalid("it is not one JSON object.")
        columns = [_whole(table.column(field.name)) for field in self._schema]
        cast = [
            column if column.type == field.type else column.cast(field.type, safe=False)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        found = _batch(cast, self._schema)
        found.validate(full=True)  # strings that are no UTF-8 pass the parser
        return found


def _batch(columns: list[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _parsed_type(kind: pa.DataType, unit: str) -> pa.DataType:
    """What a type is parsed as before it is cast: dates are strings in JSON, and times may have nine digits."""
    if pa.types.is_date32(kind):
        return pa.string()
    if pa.types.is_timestamp(kind):
        return pa.timestamp(unit, kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_parsed_type(kind.value_type, unit)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_parsed_type(field.type, unit)) for field in kind])
    return kind
