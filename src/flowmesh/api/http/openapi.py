"""The OpenAPI 3.1 document, made from the table of operations and the structs that the code itself decodes with."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from flowmesh.api.http.appending import DECODERS, AppendQuery
from flowmesh.api.http.field_notes import note_on
from flowmesh.api.http.media import ARROW, EVENTS, NDJSON
from flowmesh.api.http.outcomes import refusals, success_of
from flowmesh.api.http.problems import MEDIA_TYPE, Problem
from flowmesh.api.http.record_forms import RecordForm
from flowmesh.api.http.record_views import RecordPage
from flowmesh.api.http.routes import path_fields
from flowmesh.base import limits
from flowmesh.base.version import VERSION
from flowmesh.operations import messages
from flowmesh.operations.table import OPERATIONS, Operation

Document = dict[str, Any]
_REF = "#/components/schemas/{name}"
_JSON = "application/json"
NAME_PATTERN = "^[a-z0-9]([a-z0-9_.-]{0,62}[a-z0-9])?$"
_PROBLEM = {MEDIA_TYPE.decode(): {"schema": {"$ref": _REF.format(name="Problem")}}}
_BOUNDS: dict[str, tuple[int, int | None]] = {
    "partition": (0, limits.PARTITIONS_MAX - 1),
    "partitions": (1, limits.PARTITIONS_MAX),
    "limit": (1, limits.READ_RECORDS_MAX),
    "bytes_max": (1, limits.READ_BYTES_MAX),
    "wait_ms": (0, limits.READ_WAIT_MS_MAX),
    "window": (1, limits.SUBSCRIPTION_WINDOW_MAX),
    "offset": (0, None),
    "end_offset": (0, None),
    "split_bytes": (limits.SPLIT_BYTES_MIN, limits.SPLIT_BYTES_MAX),
    "hold_s": (1, limits.GROUP_HOLD_S_MAX),
    "segment_bytes": (limits.SEGMENT_BYTES_MIN, limits.SEGMENT_BYTES_MAX),
}


@cache
def encoded() -> bytes:
    return msgspec.json.encode(document())


@cache
def document() -> Document:
    requests = [query_of(operation) for operation in OPERATIONS]
    replies = [reply_of(operation) for operation in OPERATIONS]
    _, schemas = msgspec.json.schema_components([*requests, *replies, RecordForm, Problem], ref_template=_REF)
    paths: dict[str, Document] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.route, {})[operation.method.lower()] = _operation(operation, schemas)
    used = {kind.__name__ for kind in requests} - {kind.__name__ for kind in replies}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "FlowMesh",
            "version": VERSION,
            "description": "Streams on one hash-chained log. Every refusal is a problem with a stable code.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": {**paths, **_pages()},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "`id.secret`"}},
            "schemas": {name: schema for name, schema in schemas.items() if name not in used},
        },
    }


def query_of(operation: Operation) -> type[messages.Request]:
    """What this wire decodes: the operation's request, and for an append what only HTTP can say."""
    return AppendQuery if operation.request is messages.AppendRecords else operation.request


def reply_of(operation: Operation) -> type[messages.Reply]:
    return RecordPage if operation.request is messages.ReadRecords else operation.reply


def _operation(operation: Operation, schemas: dict[str, Any]) -> Document:
    fields = path_fields(operation)
    schema = schemas[query_of(operation).__name__]
    others = {
        name: _noted(operation, name, _bounded(name, found))
        for name, found in schema["properties"].items()
        if name not in fields
    }
    needed = [name for name in schema.get("required", ()) if name not in fields]
    in_query = operation.method in ("GET", "DELETE") or operation.request is messages.AppendRecords
    described: Document = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"Needs the permission `{operation.permission.value}` (or `admin`).",
        "tags": [operation.name.partition(".")[0]],
        "parameters": [_in_path(name) for name in fields],
        "responses": {**_success(operation), **_refusals(operation)},
    }
    if in_query:
        described["parameters"] += [
            {"name": name, "in": "query", "required": name in needed, "schema": _given(found)}
            for name, found in others.items()
        ]
    elif others:
        form = {"type": "object", "properties": others, "required": needed, "additionalProperties": False}
        described["requestBody"] = {"required": bool(needed), "content": {_JSON: {"schema": form}}}
    if operation.request is messages.AppendRecords:
        described["requestBody"] = {"required": True, "content": _record_bodies()}
    return described


def _given(schema: Document) -> Document:
    """In a query there is no null: what is not given is left out."""
    parts = [part for part in schema.get("anyOf", ()) if part.get("type") != "null"]
    if len(parts) == 1:
        (part,) = parts
        note = {"description": schema["description"]} if "description" in schema else {}
        return {**part, **note}
    return {name: found for name, found in schema.items() if name != "default" or found is not None}


def _in_path(name: str) -> Document:
    schema: Document = {"type": "string", "minLength": 1}
    if name != "id":
        schema |= {"pattern": NAME_PATTERN, "maxLength": 64}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _noted(operation: Operation, name: str, schema: Document) -> Document:
    note = note_on(operation, name)
    return schema if note is None else schema | {"description": note}


def _bounded(name: str, schema: Document) -> Document:
    """The schema of a field with its limits, which stand in `base/limits.py` and not in its type."""
    if name not in _BOUNDS:
        return schema
    least, most = _BOUNDS[name]
    bounds = {"minimum": least} if most is None else {"minimum": least, "maximum": most}
    if "anyOf" in schema:
        return schema | {
            "anyOf": [part | bounds if part.get("type") == "integer" else part for part in schema["anyOf"]]
        }
    return schema | bounds


def _record_bodies() -> Document:
    record = {"$ref": _REF.format(name="RecordForm")}
    schemas: dict[str, Document] = {
        _JSON: {"anyOf": [record, {"type": "array", "items": record, "minItems": 1}]},
        NDJSON.decode(): {"type": "string", "description": "One record object on each line."},
        "application/octet-stream": {"type": "string", "description": "The whole body is one value."},
        ARROW.decode(): {"type": "string", "description": "Columns: value, key, timestamp, headers."},
    }
    return {media.decode(): {"schema": schemas[media.decode()]} for media in DECODERS}


def _success(operation: Operation) -> Document:
    status = success_of(operation)
    if operation.request is messages.Subscribe:
        return {"200": {"description": "Records, as they come.", "content": _plain(EVENTS)}}
    if operation.reply is messages.Empty:
        return {str(status): {"description": "Done."}}
    content: Document = {_JSON: {"schema": {"$ref": _REF.format(name=reply_of(operation).__name__)}}}
    if operation.request is messages.ReadRecords:
        content |= _plain(NDJSON) | _plain(ARROW) | _plain(EVENTS)
    return {str(status): {"description": "Done.", "content": content}}


def _plain(media: bytes) -> Document:
    return {media.decode(): {"schema": {"type": "string"}}}


def _refusals(operation: Operation) -> Document:
    return {
        str(status): {"description": ", ".join(codes), "content": _PROBLEM}
        for status, codes in refusals(operation).items()
    }


def _pages() -> dict[str, Document]:
    described = {
        "/healthz": ("Say that the process lives.", _JSON),
        "/readyz": ("Say whether the node takes requests.", _JSON),
        "/metrics": ("Metrics in the text format of Prometheus. Needs the permission `node.read`.", "text/plain"),
        "/openapi.json": ("This document.", _JSON),
        "/docs": ("A page to read it.", "text/html"),
    }
    pages = {}
    for path, (summary, media) in described.items():
        schema = {"type": "object"} if media == _JSON else {"type": "string"}
        pages[path] = {
            "get": {
                "operationId": "page." + path.strip("/").partition(".")[0],
                "summary": summary,
                "tags": ["node"],
                "security": [{"token": []}] if path == "/metrics" else [],
                "responses": {
                    "200": {"description": "Here it is.", "content": {media: {"schema": schema}}},
                    "default": {"description": "A problem.", "content": _PROBLEM},
                },
            }
        }
    return pages
