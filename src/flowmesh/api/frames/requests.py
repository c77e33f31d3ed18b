"""Requests other than appends: each decoded, admitted, run beside the others, and answered."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from flowmesh.api.administration import execute
from flowmesh.api.admission import Principal
from flowmesh.api.frames import replies
from flowmesh.api.frames.context import presentable
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
from flowmesh.format import frame
from flowmesh.format.frame import Frame, FrameKind
from flowmesh.log.scan import Block
from flowmesh.log.view import LogView
from flowmesh.operations.frames import BlocksRead
from flowmesh.operations.messages import ReadRecords, Request, Subscribe
from flowmesh.operations.table import BY_CODE, BY_NAME, OPERATIONS, Operation

if TYPE_CHECKING:
    from flowmesh.api.frames.connection import FrameConnection

Work: TypeAlias = Coroutine[Any, Any, None]
READ, SUBSCRIBE = BY_NAME["stream.read"], BY_NAME["stream.subscribe"]
CANCELLABLE = frozenset({READ.code})
_JOIN_BYTES = 64 * 1024
"""Up to this average size entries are joined for the write; larger ones are handed over as they are."""
_decoders = {operation.code: msgspec.msgpack.Decoder(operation.request).decode for operation in OPERATIONS}


async def answer(connection: FrameConnection, item: Frame, principal: Principal) -> None:
    """Runs one request. Whatever goes wrong is its answer, and no concern of the connection."""
    since, name, outcome = time.perf_counter(), "unknown", "OK"
    context = connection.context
    try:
        operation, request = _decoded(item)
        name = operation.name
        context.admission.authorise(principal, operation, request, connection.peer)
        if isinstance(request, ReadRecords):
            await _read(connection, item, request)
        elif isinstance(request, Subscribe):
            await connection.subscriptions.open(item, request)
        else:
            reply = replies.reply(
                item.code, item.correlation, await execute(context.service, principal, operation, request)
            )
            if len(reply) > FRAME_REPLY_BYTES_MAX:
                raise TooLarge(f"the answer has {len(reply)} bytes, more than a frame may have.")
            connection.send_soon(reply)
    except Exception as error:  # noqa: BLE001 (whoever asked is told, and the log)
        fault = presentable(error)
        outcome = fault.code.value
        connection.send_soon(replies.error(item.code, item.correlation, fault))
    context.observe(name, since, outcome)


def _decoded(item: Frame) -> tuple[Operation, Request]:
    operation = BY_CODE.get(item.code)
    if operation is None:
        raise UnknownCommand(f"there is no operation with the code {item.code}.")
    if len(item.body):
        raise BadRequest(f"{operation.name} takes no body.", field="body")
    try:
        return operation, _decoders[item.code](item.header)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"this is no header of {operation.name}: {error}") from error


def cancel(connection: FrameConnection, item: Frame) -> None:
    """Ends a read that waits, and says so; one that is answered already needs nothing."""
    task = connection.waiting.pop(item.correlation, None)
    if task is not None:
        task.cancel()
        connection.send_soon(frame.encode(FrameKind.END, READ.code, item.correlation))


async def _read(connection: FrameConnection, item: Frame, request: ReadRecords) -> None:
    service = connection.context.service
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
    async with connection.reading:
        await connection.writable.wait()
        chunk = await service.read(partition, offset, wanted, connection.cursors.get(partition, offset))
        connection.cursors.keep(partition, chunk)
        blocks = limited(chunk.blocks, offset, limit)
        next_offset = blocks[-1].end_offset if blocks else offset
        send_blocks(connection, FrameKind.REPLY, item.code, item.correlation, blocks, next_offset, partition.view)


def limited(blocks: list[Block], offset: int, limit: int) -> list[Block]:
    """As many blocks as hold `limit` records from `offset` on: whole ones, and at least one."""
    for row, block in enumerate(blocks):
        if block.end_offset - offset >= limit:
            return blocks[: row + 1]
    return blocks


def send_blocks(
    connection: FrameConnection,
    kind: FrameKind,
    code: int,
    correlation: int,
    blocks: list[Block],
    next_offset: int,
    view: LogView,
) -> None:
    """Entries as they stand in the log, so that whoever reads them can check them."""
    header = replies.encode_message(BlocksRead(next_offset, view.start_offset, view.end_offset))
    size = sum(len(block.entry) for block in blocks)
    pieces: list[bytes | memoryview] = [frame.encode_head(kind, code, correlation, header, size)]
    pieces += [block.entry for block in blocks]
    if size < _JOIN_BYTES * len(blocks) or not blocks:
        pieces = [b"".join(pieces)]
    connection.send_pieces(pieces)
