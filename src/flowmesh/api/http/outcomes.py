"""With which statuses an operation can end: for its success, for the document, and for the test that compares both."""

from __future__ import annotations

from collections.abc import Iterable

from flowmesh.api.http.problems import (
    MEANINGS,
    BodyTooSlow,
    HeadTooLarge,
    MediaTypeUnknown,
    MethodUnknown,
    NotAcceptable,
)
from flowmesh.base.errors import ErrorCode
from flowmesh.operations import messages
from flowmesh.operations.table import Operation, Scope

_ALWAYS = (
    ErrorCode.BAD_REQUEST,
    ErrorCode.UNAUTHENTICATED,
    ErrorCode.FORBIDDEN,
    ErrorCode.NOT_FOUND,
    ErrorCode.UNKNOWN_COMMAND,
    ErrorCode.TOO_LARGE,
    ErrorCode.TOO_MANY_REQUESTS,
    ErrorCode.INTERNAL,
    ErrorCode.UNAVAILABLE,
    ErrorCode.CLOSED,
)
_CHANGES = (
    ErrorCode.ALREADY_EXISTS,
    ErrorCode.LIMIT_EXCEEDED,
    ErrorCode.STORAGE_FAILED,
    ErrorCode.DISK_FULL,
    ErrorCode.TIMED_OUT,
)
_STREAMS = (ErrorCode.CORRUPT_DATA, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.STORAGE_FAILED)
_PRODUCERS = (ErrorCode.OUT_OF_ORDER_SEQUENCE, ErrorCode.PRODUCER_FENCED)
_OFFSETS = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.CORRUPT_DATA)


def success_of(operation: Operation) -> int:
    """What was made is 201, what has nothing to say is 204."""
    if operation.request is messages.Subscribe:
        return 200
    if operation.reply is messages.Empty:
        return 204
    return 201 if operation.name.endswith(".create") else 200


def refusals(operation: Operation) -> dict[int, list[str]]:
    """Statuses in order, and the error codes behind each."""
    found: dict[int, list[str]] = {}
    for code in _codes(operation):
        found.setdefault(MEANINGS[code].status, []).append(code.value)
    found.setdefault(MethodUnknown.status, []).append(ErrorCode.UNKNOWN_COMMAND.value)
    found.setdefault(HeadTooLarge.status, []).append(ErrorCode.TOO_LARGE.value)
    found.setdefault(BodyTooSlow.status, []).append(ErrorCode.BAD_REQUEST.value)
    if operation.method != "GET":
        found.setdefault(MediaTypeUnknown.status, []).append(ErrorCode.BAD_REQUEST.value)
    if operation.request is messages.ReadRecords:
        found.setdefault(NotAcceptable.status, []).append(ErrorCode.BAD_REQUEST.value)
    return dict(sorted(found.items()))


def _codes(operation: Operation) -> Iterable[ErrorCode]:
    codes = dict.fromkeys(_ALWAYS)
    if operation.method != "GET":
        codes |= dict.fromkeys(_CHANGES)
    if operation.scope is Scope.STREAM:
        codes |= dict.fromkeys(_STREAMS)
    if operation.request is messages.AppendRecords:
        codes |= dict.fromkeys(_PRODUCERS)
    if operation.request in (messages.ReadRecords, messages.Subscribe, messages.FindOffset, messages.SplitStream):
        codes |= dict.fromkeys(_OFFSETS)
    return codes
