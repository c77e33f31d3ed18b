"""From path, query and JSON body to one request struct. A field that nobody knows is refused by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from flowmesh.api.http.bounds import QUERY_FIELDS_MAX
from flowmesh.base.errors import BadRequest
from flowmesh.operations.messages import Request

R = TypeVar("R", bound=Request)
_FIELD = re.compile(r"`\$\.(\w+)|field `([^`]*)`")
_KINDS = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_DETAIL_CHARS_MAX = 300
_SHOWN_CHARS_MAX = 80
_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_ENDS_HINT = "Both ends have names: 'at=earliest' and 'at=latest'."
_decode = msgspec.json.Decoder().decode


def request_from(kind: type[R], path: Mapping[str, str], query: bytes, body: bytes = b"") -> R:
    """Each field may come from one place only; those of the path from nowhere else."""
    given: dict[str, Any] = {**path, **query_fields(kind, path, query)}
    if body:
        for name, value in _object(body).items():
            if name in given:
                where = "path" if name in path else "query"
                shown = name[:_SHOWN_CHARS_MAX]
                raise BadRequest(f"{shown!r} is in the {where} and in the body.", field=shown)
            given[name] = value
    try:
        return msgspec.convert(given, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise unfit(error, [name for name in types_of(kind) if name not in path])


def query_fields(kind: type[Request], path: Mapping[str, str], query: bytes) -> dict[str, Any]:
    """The query's fields with the types that the request gives them."""
    if not query:
        return {}
    types = types_of(kind)
    found: dict[str, Any] = {}
    for name, text in _pairs(query):
        if name in path or name not in types:
            raise _unknown("query field", name, sorted(types.keys() - path.keys()))
        if name in found:
            raise BadRequest(f"the query says {name!r} twice.", field=name)
        try:
            found[name] = msgspec.convert(text, types[name], strict=False)
        except msgspec.ValidationError as error:
            wanted = _wanted(error)
            said = f"{name} is {text[:_SHOWN_CHARS_MAX]!r}; it has to be {wanted}." if wanted else _sentence(error)
            raise BadRequest(said, field=name, hint=_ENDS_HINT if name == "offset" and "at" in types else None)
    return found


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX
        )
    except UnicodeDecodeError:
        raise BadRequest("the query is not percent-encoded UTF-8.")
    except ValueError:
        raise BadRequest(f"the query has over {QUERY_FIELDS_MAX} fields.")


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {_sentence(error)}", hint="Send one JSON object.")
    if not isinstance(found, dict):
        raise BadRequest("the body is not a JSON object.", hint='Send one, such as {"partitions": 4}.')
    return found


_types: dict[type[Request], dict[str, Any]] = {}


def types_of(kind: type[Request]) -> dict[str, Any]:
    known = _types.get(kind)
    if known is None:
        known = _types[kind] = {field.name: field.type for field in msgspec.structs.fields(kind)}
    return known


def unfit(error: msgspec.ValidationError, names: list[str]) -> BadRequest:
    """What is wrong with a body, in words for people; `names` are those of the fields that it may have."""
    text = str(error)
    named = _FIELD.search(text)
    field = ((named[1] or named[2]) if named else None) or None
    if field is not None and "unknown field" in text:
        return _unknown("field", field, names)
    shown = field and field[:_SHOWN_CHARS_MAX]
    if field is not None and "missing required field" in text:
        return BadRequest(f"the field {shown!r} is missing.", field=shown)
    wanted = _wanted(error)
    return BadRequest(f"{shown} has to be {wanted}." if shown and wanted else _sentence(error), field=shown)


def _unknown(what: str, name: str, names: list[str]) -> BadRequest:
    near = get_close_matches(name[:_SHOWN_CHARS_MAX], names, n=1)
    meant = f"Did you mean {near[0]!r}? " if near else ""
    shown = name[:_SHOWN_CHARS_MAX]
    return BadRequest(
        f"there is no {what} {shown!r} here.", field=shown, hint=f"{meant}There is {', '.join(names) or 'none'}."
    )


def _wanted(error: msgspec.ValidationError) -> str:
    """The kinds of value that would have done; empty where the error is of another sort."""
    kinds = _KINDS.search(str(error))
    return " or ".join(_NAMES.get(kind, kind) for kind in kinds[1].split(" | ") if kind != "null") if kinds else ""


def _sentence(error: Exception) -> str:
    text = str(error)[:_DETAIL_CHARS_MAX].rstrip(".")
    return text[:1].lower() + text[1:] + "."
