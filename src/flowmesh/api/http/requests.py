"""From path, query and JSON body to one request struct. A field that nobody knows is refused by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from flowmesh.api.http.bounds import QUERY_FIELDS_MAX
from flowmesh.base.errors import BadRequest
from flowmesh.operations.messages import Request

R = TypeVar("R", bound=Request)
_FIELD = re.compile(r"`\$\.(\w+)|field `([^`]*)`")
_DETAIL_CHARS_MAX = 300
_decode = msgspec.json.Decoder().decode


def request_from(kind: type[R], path: Mapping[str, str], query: bytes, body: bytes = b"") -> R:
    """Each field may come from one place only; those of the path from nowhere else."""
    given: dict[str, Any] = {**path, **query_fields(kind, path, query)}
    if body:
        for name, value in _object(body).items():
            if name in given:
                where = "path" if name in path else "query"
                raise BadRequest(f"{name[:80]!r} is in the {where} and in the body.", field=name[:80])
            given[name] = value
    try:
        return msgspec.convert(given, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise unfit(error, kind)


def query_fields(kind: type[Request], path: Mapping[str, str], query: bytes) -> dict[str, Any]:
    """The query's fields with the types that the request gives them."""
    if not query:
        return {}
    types = types_of(kind)
    found: dict[str, Any] = {}
    for name, text in _pairs(query):
        if name in path or name not in types:
            raise BadRequest(
                f"there is no query field {name[:80]!r} here.",
                field=name[:80],
                hint=f"There is {', '.join(sorted(types.keys() - path.keys())) or 'none'}.",
            )
        if name in found:
            raise BadRequest(f"the query says {name!r} twice.", field=name)
        try:
            found[name] = msgspec.convert(text, types[name], strict=False)
        except msgspec.ValidationError as error:
            raise BadRequest(f"{name}: {_sentence(error)}", field=name)
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


def unfit(error: msgspec.ValidationError, kind: type[Request]) -> BadRequest:
    named = _FIELD.search(str(error))
    field = ((named[1] or named[2]) if named else None) or None
    return BadRequest(_sentence(error), field=field and field[:80], hint=f"There is {', '.join(types_of(kind))}.")


def _sentence(error: Exception) -> str:
    text = str(error)[:_DETAIL_CHARS_MAX].rstrip(".")
    return text[:1].lower() + text[1:] + "."
