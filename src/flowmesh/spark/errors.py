"""Errors as a user of Spark meets them: a stable condition, what went wrong where, and the option that mends it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from flowmesh.base.errors import (
    BadRequest,
    Closed,
    CorruptData,
    FlowMeshError,
    Forbidden,
    NotFound,
    OffsetOutOfRange,
    TimedOut,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnsupportedVersion,
)


class Condition(StrEnum):
    """Stable names, as Spark's own error conditions are: a name is never reused for another meaning."""

    UNKNOWN_OPTION = "FLOWMESH_UNKNOWN_OPTION"
    BAD_OPTION = "FLOWMESH_BAD_OPTION"
    BAD_SCHEMA = "FLOWMESH_BAD_SCHEMA"
    STREAM_NOT_FOUND = "FLOWMESH_STREAM_NOT_FOUND"
    TOKEN_REFUSED = "FLOWMESH_TOKEN_REFUSED"
    FORBIDDEN = "FLOWMESH_FORBIDDEN"
    NODE_UNREACHABLE = "FLOWMESH_NODE_UNREACHABLE"
    DATA_LOST = "FLOWMESH_DATA_LOST"
    DATA_CORRUPT = "FLOWMESH_DATA_CORRUPT"
    BAD_RECORD = "FLOWMESH_BAD_RECORD"
    CHECKPOINT_MISMATCH = "FLOWMESH_CHECKPOINT_MISMATCH"
    REPLAY_DIFFERS = "FLOWMESH_REPLAY_DIFFERS"
    FENCED = "FLOWMESH_FENCED"
    FAILED = "FLOWMESH_FAILED"


class FlowMeshSparkError(FlowMeshError):
    """All that the source, the sink and the archive raise. `option` is the option to look at first."""

    def __init__(self, condition: Condition, message: str, *, option: str | None = None, hint: str | None = None):
        super().__init__(message, field=option, hint=hint)
        self.condition = condition
        self.option = option

    def __str__(self) -> str:
        return f"[{self.condition.value}] {super().__str__()}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.condition, self.message, self.option, self.hint)


def _rebuilt(condition: Condition, message: str, option: str | None, hint: str | None) -> FlowMeshSparkError:
    return FlowMeshSparkError(condition, message, option=option, hint=hint)


TRANSIENT = (Unavailable, TimedOut, Closed, TooManyRequests)
"""What a node that is being restarted answers, or does not answer: worth another try."""


def explained(error: FlowMeshError, where: str) -> FlowMeshSparkError:
    """An error of the layers below, in the words of somebody who wrote a query. `where` names stream and place."""
    if isinstance(error, FlowMeshSparkError):
        return error
    for kinds, condition, option, hint in _EXPLANATIONS:
        if isinstance(error, kinds):
            own = error.hint and error.hint.replace("ca_file", "option 'caFile'")
            option = option or error.field
            return FlowMeshSparkError(condition, f"{where}: {error.message}", option=option, hint=hint or own)
    return FlowMeshSparkError(Condition.FAILED, f"{where}: {error}", option=error.field)


_EXPLANATIONS: tuple[tuple[tuple[type[FlowMeshError], ...], Condition, str | None, str | None], ...] = (
    (
        (Unauthenticated,),
        Condition.TOKEN_REFUSED,
        "token",
        "Give a token that is good with option 'token', option 'tokenFile' or the variable FLOWMESH_TOKEN.",
    ),
    (
        (Forbidden,),
        Condition.FORBIDDEN,
        "token",
        "Reading takes a token with the permission stream.read, and writing one with stream.write (option 'token').",
    ),
    (
        (NotFound,),
        Condition.STREAM_NOT_FOUND,
        "stream",
        "Look at options 'stream', 'tenant' and 'namespace', and at what the token may see.",
    ),
    (
        (OffsetOutOfRange,),
        Condition.DATA_LOST,
        "onDataLoss",
        "Option 'onDataLoss' = 'skip' goes on with what is left.",
    ),
    (
        (CorruptData, UnsupportedVersion),
        Condition.DATA_CORRUPT,
        None,
        "Nothing of it was served. 'flowmesh log verify' names what is damaged.",
    ),
    (
        TRANSIENT,
        Condition.NODE_UNREACHABLE,
        "reconnectTimeout",
        "Is the node running, and is option 'url' right? Option 'reconnectTimeout' says how long to try.",
    ),
    ((BadRequest,), Condition.BAD_OPTION, None, None),
)


def bad_option(option: str, message: str, hint: str | None = None) -> FlowMeshSparkError:
    return FlowMeshSparkError(Condition.BAD_OPTION, f"option '{option}': {message}", option=option, hint=hint)


def data_lost(stream: str, partition: int, start: int, end: int, why: str) -> FlowMeshSparkError:
    """A range that was asked for is not there any more."""
    return FlowMeshSparkError(
        Condition.DATA_LOST,
        f"stream {stream}, partition {partition}: offsets [{start}, {end}) are gone: {why}",
        option="onDataLoss",
        hint="Option 'onDataLoss' = 'skip' goes on with what is left; options 'group' and 'hold' keep retention "
        "from taking what a query has not read yet.",
    )
