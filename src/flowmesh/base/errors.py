"""Every error a user can meet: one code enum, and one exception type for each way the log can refuse.

An error says what is wrong, which field or place is meant, and what to do next. Wires render these; they invent none.
"""

from __future__ import annotations

from enum import StrEnum


class ErrorCode(StrEnum):
    """Stable names. Clients switch on these, so a name is never reused for another meaning."""

    BAD_REQUEST = "BAD_REQUEST"
    TOO_LARGE = "TOO_LARGE"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_OPEN = "ALREADY_OPEN"
    OFFSET_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
    CORRUPT_DATA = "CORRUPT_DATA"
    UNSUPPORTED_VERSION = "UNSUPPORTED_VERSION"
    DISK_FULL = "DISK_FULL"
    STORAGE_FAILED = "STORAGE_FAILED"
    CLOSED = "CLOSED"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    TOO_MANY_REQUESTS = "TOO_MANY_REQUESTS"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    UNKNOWN_COMMAND = "UNKNOWN_COMMAND"
    OUT_OF_ORDER_SEQUENCE = "OUT_OF_ORDER_SEQUENCE"
    PRODUCER_FENCED = "PRODUCER_FENCED"
    SUBSCRIPTION_STALLED = "SUBSCRIPTION_STALLED"
    TIMED_OUT = "TIMED_OUT"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL = "INTERNAL"


class FlowMeshError(Exception):
    """The root of all errors meant for users."""

    code = ErrorCode.BAD_REQUEST

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class BadRequest(FlowMeshError):
    """The caller gave a value that can never work."""


class TooLarge(FlowMeshError):
    """A value is over its limit; the message names the limit."""

    code = ErrorCode.TOO_LARGE


class NotFound(FlowMeshError):
    """There is nothing of that name here."""

    code = ErrorCode.NOT_FOUND


class AlreadyOpen(FlowMeshError):
    """Another process holds the lock of this directory."""

    code = ErrorCode.ALREADY_OPEN


class OffsetOutOfRange(FlowMeshError):
    """The offset was trimmed away, or lies past the end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(
            f"offset {offset} is outside this log, which holds [{start_offset}, {end_offset}).",
            field="offset",
            hint="Read from 'earliest', or from an offset inside that range.",
        )
        self.offset = offset
        self.start_offset = start_offset
        self.end_offset = end_offset


class CorruptData(FlowMeshError):
    """Bytes that were once durable are not what was written. They are named and never served."""

    code = ErrorCode.CORRUPT_DATA


class UnsupportedVersion(FlowMeshError):
    """Written by a newer FlowMesh. Nothing is touched."""

    code = ErrorCode.UNSUPPORTED_VERSION


class DiskFull(FlowMeshError):
    """Refused before the disk is really full; heals by itself once space is back."""

    code = ErrorCode.DISK_FULL


class StorageFailed(FlowMeshError):
    """A write or an fsync failed. The log takes no appends until it is opened anew."""

    code = ErrorCode.STORAGE_FAILED


class Closed(FlowMeshError):
    """The log or the writer was closed before this could be done."""

    code = ErrorCode.CLOSED


class Unauthenticated(FlowMeshError):
    """There is no token, or it is not one that this node knows, or it has expired. Which of these is not said."""

    code = ErrorCode.UNAUTHENTICATED


class Forbidden(FlowMeshError):
    """The token is good, and does not allow this."""

    code = ErrorCode.FORBIDDEN


class AlreadyExists(FlowMeshError):
    """Something of that name is there."""

    code = ErrorCode.ALREADY_EXISTS


class TooManyRequests(FlowMeshError):
    """Slow down; the same call may succeed later."""

    code = ErrorCode.TOO_MANY_REQUESTS


class LimitExceeded(FlowMeshError):
    """A quota of the tenant or the node is used up."""

    code = ErrorCode.LIMIT_EXCEEDED


class UnknownCommand(FlowMeshError):
    """No operation has that name or number."""

    code = ErrorCode.UNKNOWN_COMMAND


class OutOfOrderSequence(FlowMeshError):
    """A producer's batch came before one that has to come first, or is too old to be recognised."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        hint: str | None = None,
        next_sequence: int | None = None,
        since_offset: int | None = None,
    ) -> None:
        super().__init__(message, field=field, hint=hint)
        self.next_sequence = next_sequence
        """The one that would be taken."""
        self.since_offset = since_offset
        """What is stored of the producer in this epoch begins here."""


class ProducerFenced(FlowMeshError):
    """A newer producer with the same id has taken over."""

    code = ErrorCode.PRODUCER_FENCED


class SubscriptionStalled(FlowMeshError):
    """The subscriber stopped acknowledging; it may go on by reading from the offset that is named."""

    code = ErrorCode.SUBSCRIPTION_STALLED


class TimedOut(FlowMeshError):
    """No answer in time: whether the operation took place is unknown."""

    code = ErrorCode.TIMED_OUT


class Unavailable(FlowMeshError):
    """The node is starting, stopping or overloaded; try again, or try another node."""

    code = ErrorCode.UNAVAILABLE


class Internal(FlowMeshError):
    """A fault of FlowMesh itself. Details are in the node's log, never in the answer."""

    code = ErrorCode.INTERNAL
