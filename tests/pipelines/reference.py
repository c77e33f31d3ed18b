"""The fields of a pipeline as the page says them."""

from __future__ import annotations

import msgspec
from msgspec import inspect


def rows_of(kind: type[msgspec.Struct]) -> list[list[str]]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return [[f"`{field.encode_name}`", _default(field), _meaning(field)] for field in info.fields]


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else None
    return "" if value is None else f"`{str(value).lower()}`"


def _meaning(field: inspect.Field) -> str:
    assert isinstance(field.type, inspect.Metadata), f"{field.name} has no description"
    schema = field.type.extra_json_schema
    assert schema is not None
    return str(schema["description"]).replace("|", "\\|")
