"""Headers that only the frames wire has, and errors as they travel: what its server and its clients share."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from flowmesh.access.tokens import masked
from flowmesh.base import errors
from flowmesh.base.errors import ErrorCode, FlowMeshError, OffsetOutOfRange, OutOfOrderSequence
from flowmesh.operations.messages import AppendRecords, Reply, Request

PROTOCOL = 1


class Hello(Request, frozen=True):
    """The first frame of a connection, and later ones that bring a new token."""

    token: str
    client: str = ""
    """Name and version of the client, for people who look at the node."""


class Welcome(Reply, frozen=True):
    node: str
    version: str
    protocol: int
    frame_bytes_max: int
    in_flight_max: int
    idle_ms: int


class SingleAppend(AppendRecords, frozen=True):
    """An append of one record; the frame's body is its value."""

    key: bytes | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    time_ns: int | None = None
    null: bool = False
    """The value is null; the body is empty."""


class BlocksRead(Reply, frozen=True):
    """Goes before block entries: in the reply to a read, and with each push of a subscription."""

    next_offset: int
    start_offset: int
    end_offset: int
    segments: tuple[tuple[int, str], ...] = ()
    """Each segment that the entries come from: the offset of its first entry here, and its part of their block ids."""


class Subscribed(Reply, frozen=True):
    offset: int
    """Where the pushes begin."""
    end_offset: int


class SubscriptionAck(Request, frozen=True):
    offset: int
    """Every record before this one is done with."""


class ErrorBody(Reply, frozen=True, omit_defaults=True):
    code: str
    message: str
    field: str | None = None
    hint: str | None = None
    offset: int | None = None
    """Where to go on, or the offset that was not there."""
    start_offset: int | None = None
    end_offset: int | None = None
    next_sequence: int | None = None
    """Of a producer whose batch was out of order: what it has to send."""
    since_offset: int | None = None
    """Where what is stored of that producer begins."""


_BY_CODE: dict[str, type[FlowMeshError]] = {
    found.code.value: found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, FlowMeshError) and found is not FlowMeshError
}
_encode = msgspec.msgpack.Encoder().encode
_decode_error = msgspec.msgpack.Decoder(ErrorBody).decode


def error_header(error: FlowMeshError, *, offset: int | None = None) -> bytes:
    """An error as the header of a frame. It may quote what was sent, and not what must stay secret."""
    start = end = sequence = since = None
    if isinstance(error, OffsetOutOfRange):
        offset, start, end = error.offset, error.start_offset, error.end_offset
    elif isinstance(error, OutOfOrderSequence):
        sequence, since = error.next_sequence, error.since_offset
    field, hint = error.field and masked(error.field), error.hint and masked(error.hint)
    fixed = (error.code.value, masked(error.message), field, hint)
    return _encode(ErrorBody(*fixed, offset, start, end, sequence, since))


class NodeError(NamedTuple):
    """An error that a node sent: the exception it stands for, and where it says to go on."""

    error: FlowMeshError
    offset: int | None


def error_of(header: bytes) -> NodeError:
    """The error in a frame's header; one of an unknown code, from a newer node, as the root of all errors."""
    try:
        body = _decode_error(header)
    except msgspec.MsgspecError as fault:
        return NodeError(errors.Internal(f"the node sent an error that cannot be read: {fault}"), None)
    offsets = (body.offset, body.start_offset, body.end_offset)
    if body.code == ErrorCode.OFFSET_OUT_OF_RANGE and None not in offsets:
        return NodeError(OffsetOutOfRange(*(number or 0 for number in offsets)), body.offset)
    made = _BY_CODE.get(body.code, FlowMeshError)(body.message, field=body.field, hint=body.hint)
    if isinstance(made, OutOfOrderSequence):
        made.next_sequence, made.since_offset = body.next_sequence, body.since_offset
    return NodeError(made, body.offset)
