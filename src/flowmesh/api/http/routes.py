"""Paths to operations, derived from the table. A path is cut at its slashes first and decoded after, once."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from flowmesh.base.errors import BadRequest, UnknownCommand
from flowmesh.operations.table import OPERATIONS, Operation


class Match(NamedTuple):
    methods: dict[str, Operation]
    fields: dict[str, str]


class _Route(NamedTuple):
    segments: tuple[str, ...]
    methods: dict[str, Operation]


def _routes() -> dict[int, list[_Route]]:
    by_path: dict[str, _Route] = {}
    for operation in OPERATIONS:
        segments = tuple(operation.route.split("/")[1:])
        by_path.setdefault(operation.route, _Route(segments, {})).methods[operation.method] = operation
    by_length: dict[int, list[_Route]] = {}
    for route in by_path.values():
        by_length.setdefault(len(route.segments), []).append(route)
    return by_length


_ROUTES = _routes()


def path_fields(operation: Operation) -> list[str]:
    return [segment[1:-1] for segment in operation.route.split("/") if segment.startswith("{")]


def segments_of(raw_path: bytes) -> list[str]:
    """The parts of a path, each decoded exactly once: an encoded slash stays inside its part, and is refused there."""
    try:
        return [unquote_to_bytes(part).decode() for part in raw_path.split(b"/")[1:]]
    except UnicodeDecodeError:
        raise BadRequest("the path is not UTF-8.", hint="Names are made of a-z, 0-9, '-', '_' and '.'.")


def match(raw_path: bytes) -> Match:
    """What can be done at a path. Raises when there is nothing."""
    segments = segments_of(raw_path)
    for route in _ROUTES.get(len(segments), ()):
        fields = _fields(route.segments, segments)
        if fields is not None:
            return Match(route.methods, fields)
    raise UnknownCommand("there is nothing at this path.", hint="GET /docs lists what there is.")


def _fields(pattern: tuple[str, ...], segments: list[str]) -> dict[str, str] | None:
    fields: dict[str, str] = {}
    for wanted, found in zip(pattern, segments, strict=True):
        if wanted.startswith("{"):
            fields[wanted[1:-1]] = found
        elif wanted != found:
            return None
    return fields
