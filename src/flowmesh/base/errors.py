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
