"""Errors as problem+json (RFC 9457), and the one table that gives each error code its HTTP status."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from flowmesh.access.tokens import masked
from flowmesh.base.errors import BadRequest, ErrorCode, FlowMeshError, OffsetOutOfRange, TooLarge, UnknownCommand

MEDIA_TYPE = b"application/problem+json"
Headers = list[tuple[bytes, bytes]]
TYPE_PREFIX = "/docs#"


class Meaning(NamedTuple):
    status: int
    title: str


MEANINGS: dict[ErrorCode, Meaning] = {
    ErrorCode.BAD_REQUEST: Meaning(400, "The request cannot work as it is"),
    ErrorCode.UNAUTHENTICATED: Meaning(401, "A good token is needed"),
    ErrorCode.FORBIDDEN: Meaning(403, "The token does not allow this"),
    ErrorCode.NOT_FOUND: Meaning(404, "There is nothing of that name"),
    ErrorCode.UNKNOWN_COMMAND: Meaning(404, "There is no such operation"),
    ErrorCode.ALREADY_EXISTS: Meaning(409, "Something of that name is there already"),
    ErrorCode.ALREADY_OPEN: Meaning(409, "Another process has it open"),
    ErrorCode.OUT_OF_ORDER_SEQUENCE: Meaning(409, "The producer's batch is out of order"),
    ErrorCode.PRODUCER_FENCED: Meaning(409, "A newer producer has taken over"),
    ErrorCode.LIMIT_EXCEEDED: Meaning(409, "A quota is used up"),
    ErrorCode.SUBSCRIPTION_STALLED: Meaning(409, "The subscriber stopped reading"),
    ErrorCode.TOO_LARGE: Meaning(413, "Something is over its limit"),
    ErrorCode.OFFSET_OUT_OF_RANGE: Meaning(416, "The offset is outside the log"),
    ErrorCode.TOO_MANY_REQUESTS: Meaning(429, "Too many requests"),
    ErrorCode.INTERNAL: Meaning(500, "FlowMesh itself failed"),
    ErrorCode.CORRUPT_DATA: Meaning(500, "Stored data is damaged and is not served"),
    ErrorCode.STORAGE_FAILED: Meaning(500, "The storage failed"),
    ErrorCode.UNSUPPORTED_VERSION: Meaning(501, "The data was written by a newer version"),
    ErrorCode.UNAVAILABLE: Meaning(503, "The node cannot serve this now"),
    ErrorCode.CLOSED: Meaning(503, "It was closed before this could be done"),
    ErrorCode.TIMED_OUT: Meaning(504, "There was no answer in time"),
    ErrorCode.DISK_FULL: Meaning(507, "The disk is full"),
}

_EXTRA_HEADERS: dict[ErrorCode, Headers] = {
    ErrorCode.UNAUTHENTICATED: [(b"www-authenticate", b"Bearer")],
    ErrorCode.TOO_MANY_REQUESTS: [(b"retry-after", b"60")],
    ErrorCode.UNAVAILABLE: [(b"retry-after", b"1")],
}


class Problem(msgspec.Struct, omit_defaults=True):
    """The body of every refusal. `code` is stable; the words are for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    field: str | None = None
    """The field of the request that is meant."""
    hint: str | None = None
    """What to do about it."""
    start_offset: int | None = None
    end_offset: int | None = None
    """With OFFSET_OUT_OF_RANGE: what the partition holds."""


# --- refusals that only HTTP knows: an error code that exists, with a status that says more -----------------------


class MediaTypeUnknown(BadRequest):
    """The body is of a type that is not understood here."""

    status = 415


class NotAcceptable(BadRequest):
    """The client takes no form in which this can be given."""

    status = 406


class MethodUnknown(UnknownCommand):
    """The path is there, the method is not."""

    status = 405

    def __init__(self, method: str, allowed: list[str]) -> None:
        shown = ", ".join(allowed)
        super().__init__(f"{method[:20]} is not something this path does.", hint=f"It does {shown}.")
        self.headers: Headers = [(b"allow", shown.encode())]


class HeadTooLarge(TooLarge):
    """Request line and headers are over their limit."""

    status = 431


class BodyTooSlow(BadRequest):
    """The rest of the request did not come in time. Nothing was done."""

    status = 408


_encode = msgspec.json.Encoder().encode


def status_of(error: FlowMeshError) -> int:
    status: int = getattr(error, "status", 0) or MEANINGS[error.code].status
    return status


def problem_of(error: FlowMeshError) -> Problem:
    """It may quote what was sent, and not what must stay secret."""
    meaning = MEANINGS[error.code]
    problem = Problem(
        TYPE_PREFIX + error.code.value,
        meaning.title,
        status_of(error),
        error.code.value,
        masked(error.message),
        error.field and masked(error.field),
        error.hint and masked(error.hint),
    )
    if isinstance(error, OffsetOutOfRange):
        problem.start_offset, problem.end_offset = error.start_offset, error.end_offset
    return problem


def rendered(error: FlowMeshError) -> tuple[int, Headers, bytes]:
    """Status, headers and body."""
    body = _encode(problem_of(error))
    extra: Headers = getattr(error, "headers", None) or _EXTRA_HEADERS.get(error.code, [])
    headers = [
        (b"content-type", MEDIA_TYPE),
        (b"content-length", b"%d" % len(body)),
        (b"x-content-type-options", b"nosniff"),
        *extra,
    ]
    return status_of(error), headers, body
