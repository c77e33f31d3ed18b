"""Requests other than appends: each decoded, admitted, run beside the others, and answered."""

from __future__ import annotations

import time

import msgspec

from flowmesh.api.administration import execute
from flowmesh.api.admission import Principal
from flowmesh.api.frames import replies
from flowmesh.api.frames.blocks import limited, send_blocks
from flowmesh.api.frames.caller import Caller
from flowmesh.api.frames.context import presentable
from flowmesh.api.frames.headers import decoded
from flowmesh.api.frames.subscriptions import Subscriptions
from flowmesh.api.frames.targets import stream_of
from flowmesh.base import times
from flowmesh.base.errors import BadRequest, TooLarge, UnknownCommand
from flowmesh.base.limits import (
    FRAME_READ_BYTES_MAX,
    FRAME_REPLY_BYTES_MAX,
    READ_BYTES_DEFAULT,
    READ_RECORDS_MAX,
    READ_WAIT_MS_MAX,
)
from flowmesh.format.frame import Frame, FrameKind
from flowmesh.operations.messages import ReadRecords, Request, Subscribe
from flowmesh.operations.table import BY_CODE, BY_NAME, OPERATIONS, Operation

READ = BY_NAME["stream.read"]
CANCELLABLE = frozenset({READ.code})
_decoders = {operation.code: msgspec.msgpack.Decoder(operation.request).decode for operation in OPERATIONS}


async def answer(caller: Caller, subscriptions: Subscriptions, item: Frame, principal: Principal) -> None:
    """Runs one request. Whatever goes wrong is its answer, and no concern of the connection."""
    since, name, outcome = time.perf_counter(), "unknown", "OK"
    context = caller.context
    try:
        operation, request = _decoded(item)
        name = operation.name
        context.admission.authorise(principal, operation, request, caller.peer)
        if isinstance(request, ReadRecords):
            await _read(caller, item, request)
        elif isinstance(request, Subscribe):
            await subscriptions.open(item, request)
        else:
            reply = replies.reply(
                item.code, item.correlation, await execute(context.service, principal, operation, request)
            )
            if len(reply) > FRAME_REPLY_BYTES_MAX:
                raise TooLarge(f"the answer has {len(reply)} bytes, more than a frame may have.")
            caller.send_soon(reply)
    except Exception as error:  # noqa: BLE001 (whoever asked is told, and the log)
        fault = presentable(error)
        outcome = fault.code.value
        caller.send_soon(replies.error(item.code, item.correlation, fault))
    context.observe(name, since, outcome)


def _decoded(item: Frame) -> tuple[Operation, Request]:
    operation = BY_CODE.get(item.code)
    if operation is None:
        raise UnknownCommand(f"there is no operation with the code {item.code}.")
    if len(item.body):
        raise BadRequest(f"{operation.name} takes no body.", field="body")
    return operation, decoded(_decoders[item.code], item.header, f"header of {operation.name}")


async def _read(caller: Caller, item: Frame, request: ReadRecords) -> None:
    service = caller.context.service
    _, partition = stream_of(service, request, request.partition)
    wanted = READ_BYTES_DEFAULT if request.bytes_max is None else request.bytes_max
    limit = READ_RECORDS_MAX if request.limit is None else request.limit
    for field, value, least, most in (
        ("bytes_max", wanted, 1, FRAME_READ_BYTES_MAX),
        ("limit", limit, 1, READ_RECORDS_MAX),
        ("wait_ms", request.wait_ms, 0, READ_WAIT_MS_MAX),
    ):
        if not least <= value <= most:
            raise BadRequest(f"{field} is {value}; it goes from {least} to {most}.", field=field)
    time_ns = None if request.time is None else times.from_text(request.time)
    offset = await service.find_offset(partition, request.offset, time_ns, request.at, "earliest")
    if request.wait_ms and offset >= partition.view.end_offset:
        # The first look tells whether the offset is inside the log at all; only then is there something to wait for.
        if not (await service.read(partition, offset, 1)).blocks:
            await service.wait_for_more(partition, offset, request.wait_ms)
        stream_of(service, request, request.partition)
    async with caller.reading:
        await caller.writable.wait()
        chunk = await service.read(partition, offset, wanted, caller.cursors.get(partition, offset))
        caller.cursors.keep(partition, chunk)
        blocks = limited(chunk.blocks, offset, limit)
        next_offset = blocks[-1].end_offset if blocks else offset
        send_blocks(caller, FrameKind.REPLY, item.code, item.correlation, blocks, next_offset, partition.view)
