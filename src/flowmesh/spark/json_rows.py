"""Columns as one JSON object for each row, put together by Arrow; what it cannot write is written value by value."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

_ESCAPED = r'["\\\x00-\x1f]'
_NULL = pa.scalar("null")
_QUOTE = pa.scalar('"')


def json_objects(columns: Sequence[pa.Array], names: Sequence[str]) -> pa.Array:
    """Binary. Nulls are written as null; times in ISO 8601, bytes in base64, numbers that JSON has not as null."""
    pieces: list[Any] = []
    for position, (column, name) in enumerate(zip(columns, names, strict=True)):
        opening = "{" if position == 0 else ","
        pieces += [pa.scalar(f"{opening}{msgspec.json.encode(name).decode()}:"), _texts(column)]
    return pc.binary_join_element_wise(*pieces, pa.scalar("}"), pa.scalar("")).cast(pa.binary())


def _texts(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string()).fill_null(_NULL)
    if pa.types.is_floating(kind) and pc.all(pc.is_finite(column)).as_py() is not False:
        return column.cast(pa.string()).fill_null(_NULL)
    if pa.types.is_string(kind) and not pc.any(pc.match_substring_regex(column, _ESCAPED)).as_py():
        return pc.binary_join_element_wise(_QUOTE, column, _QUOTE, pa.scalar("")).fill_null(_NULL)
    encode = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode
    return pa.array([encode(_plain(value)).decode() for value in column.to_pylist()], pa.string())


def _plain(value: Any) -> Any:
    """What msgspec has no form for: maps and rows come as lists and dictionaries; times in UTC end with Z by itself."""
    if isinstance(value, dict):
        return {str(name): _plain(content) for name, content in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(pair, tuple) for pair in value):
            return {str(name): _plain(content) for name, content in value}
        return [_plain(content) for content in value]
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    return value
