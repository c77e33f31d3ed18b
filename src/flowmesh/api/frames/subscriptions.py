"""Subscriptions of one connection: records pushed as they come, as far ahead as the subscriber's window allows."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from flowmesh.api.frames import replies
from flowmesh.api.frames.blocks import send_blocks
from flowmesh.api.frames.caller import Caller
from flowmesh.api.frames.context import presentable
from flowmesh.api.frames.headers import decoded
from flowmesh.api.frames.targets import stream_of
from flowmesh.base import times
from flowmesh.base.errors import BadRequest, LimitExceeded, SubscriptionStalled, Unavailable
from flowmesh.base.limits import READ_BYTES_DEFAULT, SUBSCRIPTION_WINDOW_MAX, SUBSCRIPTIONS_PER_CONNECTION_MAX
from flowmesh.format import frame
from flowmesh.format.frame import Frame, FrameKind
from flowmesh.log.scan import Block
from flowmesh.node.partition import StreamPartition
from flowmesh.operations.frames import Subscribed, SubscriptionAck
from flowmesh.operations.messages import Subscribe
from flowmesh.operations.table import BY_NAME

SUBSCRIBE = BY_NAME["stream.subscribe"]
_WAIT_MS = 30_000
_decode_ack = msgspec.msgpack.Decoder(SubscriptionAck).decode


class Subscription:
    def __init__(self, correlation: int, request: Subscribe, partition: StreamPartition, offset: int) -> None:
        self.correlation = correlation
        self.request = request
        self.partition = partition
        self.acknowledged = self.next_offset = offset
        self.room = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def free(self) -> int:
        """Records that may still be pushed. With nothing under way there is always room for one block."""
        return self.request.window - (self.next_offset - self.acknowledged)


class Subscriptions:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._open: dict[int, Subscription] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def open(self, item: Frame, request: Subscribe) -> None:
        service = self._caller.context.service
        if not 1 <= request.window <= SUBSCRIPTION_WINDOW_MAX:
            raise BadRequest(
                f"window is {request.window}; it goes from 1 to {SUBSCRIPTION_WINDOW_MAX}.", field="window"
            )
        if item.correlation in self._open:
            raise BadRequest(f"there is a subscription with the correlation id {item.correlation} already.")
        if len(self._open) >= SUBSCRIPTIONS_PER_CONNECTION_MAX:
            raise LimitExceeded(f"a connection has at most {SUBSCRIPTIONS_PER_CONNECTION_MAX} subscriptions.")
        _, partition = stream_of(service, request, request.partition)
        time_ns = None if request.time is None else times.from_text(request.time)
        offset = await service.find_offset(partition, request.offset, time_ns, request.at, "latest")
        await service.read(partition, offset, 1)  # an offset that is not there is said now
        view = partition.view
        subscription = Subscription(item.correlation, request, partition, offset)
        self._open[item.correlation] = subscription
        self._caller.send_soon(replies.reply(item.code, item.correlation, Subscribed(offset, view.end_offset)))
        task = subscription.task = self._caller.spawn(self._run(subscription))
        task.add_done_callback(partial(self._forget, item.correlation))

    def acknowledge(self, item: Frame) -> None:
        """More room. An acknowledgement of a subscription that is over comes too late, which is nobody's fault."""
        offset = decoded(_decode_ack, item.header, "acknowledgement").offset
        subscription = self._open.get(item.correlation)
        if subscription is None:
            return
        if offset > subscription.next_offset:
            raise BadRequest(
                f"offset {offset} was acknowledged, and only those before {subscription.next_offset} were pushed.",
                field="offset",
            )
        if offset > subscription.acknowledged:
            subscription.acknowledged = offset
            subscription.room.set()

    def cancel(self, correlation: int) -> bool:
        """Whether there was such a subscription to end."""
        subscription = self._open.pop(correlation, None)
        if subscription is None:
            return False
        if subscription.task is not None:
            subscription.task.cancel()
        self._caller.send_soon(frame.encode(FrameKind.END, SUBSCRIBE.code, correlation))
        return True

    def _forget(self, correlation: int, task: asyncio.Task[None]) -> None:
        """Forgets the subscription of that task; a later one with the same id stays."""
        subscription = self._open.get(correlation)
        if subscription is not None and subscription.task is task:
            del self._open[correlation]

    def close(self) -> None:
        for subscription in self._open.values():
            if subscription.task is not None:
                subscription.task.cancel()
        self._open = {}

    # --- pushing ------------------------------------------------------------------------------------------------

    async def _run(self, subscription: Subscription) -> None:
        """Pushes until something ends it, and says what that was and where to go on."""
        caller, code = self._caller, SUBSCRIBE.code
        try:
            while True:
                await self._wait_for_room(subscription)
                await self._push(subscription)
        except Exception as error:  # noqa: BLE001 (the subscriber is told, and the log)
            fault = presentable(error)
            end = replies.error(
                code, subscription.correlation, fault, kind=FrameKind.END, offset=subscription.next_offset
            )
            caller.send_soon(end)

    async def _wait_for_room(self, subscription: Subscription) -> None:
        """Waits while the window is full or the peer does not read; too long is a stall."""
        while subscription.free <= 0:
            await self._wait_for_acknowledgement(subscription)
        await self._patiently(self._caller.writable, "read")

    async def _wait_for_acknowledgement(self, subscription: Subscription) -> None:
        subscription.room.clear()
        await self._patiently(subscription.room, "acknowledged")

    async def _patiently(self, event: asyncio.Event, verb: str) -> None:
        patience_s = self._caller.context.stall_ms / 1000
        try:
            # Not `wait_for`: in Python 3.11 it loses a cancellation that comes when the event has just been set.
            async with asyncio.timeout(patience_s):
                await event.wait()
        except TimeoutError:
            raise SubscriptionStalled(
                f"nothing was {verb} for {patience_s:g} s while records were waiting; no more are pushed.",
                hint="Go on with reads, or subscribe again, from the offset that is named.",
            ) from None

    async def _push(self, subscription: Subscription) -> None:
        caller, service, partition = self._caller, self._caller.context.service, subscription.partition
        offset = subscription.next_offset
        if partition.view.end_offset <= offset:
            await service.wait_for_more(partition, offset, _WAIT_MS)
        self._require_still_there(subscription)
        async with caller.reading:
            chunk = await service.read(partition, offset, READ_BYTES_DEFAULT, caller.cursors.get(partition, offset))
            blocks = _fitting(chunk.blocks, subscription)
            if blocks:
                if len(blocks) == len(chunk.blocks):
                    caller.cursors.keep(partition, chunk)
                subscription.next_offset = blocks[-1].end_offset
                where = (SUBSCRIBE.code, subscription.correlation)
                end = subscription.next_offset
                send_blocks(caller, FrameKind.PUSH, *where, blocks, end, partition.view)
        if chunk.blocks and not blocks:
            await self._wait_for_acknowledgement(subscription)

    def _require_still_there(self, subscription: Subscription) -> None:
        """A stream that was deleted and a token that was revoked end their subscriptions."""
        context, request = self._caller.context, subscription.request
        if context.service.draining:
            raise Unavailable("this node is stopping.", hint="Connect again in a moment.")
        principal = self._caller.principal
        assert principal is not None
        principal = context.admission.still_good(principal)
        context.admission.authorise(principal, SUBSCRIBE, request, self._caller.peer)
        _, partition = stream_of(context.service, request, request.partition)
        if partition is not subscription.partition:
            raise Unavailable("this stream was deleted and created anew.", hint="Subscribe again.")


def _fitting(blocks: list[Block], subscription: Subscription) -> list[Block]:
    """Whole blocks that the window has room for. One that is larger than any window goes alone."""
    offset, free = subscription.next_offset, subscription.free
    fitting = [block for block in blocks if block.end_offset - offset <= free]
    return fitting or (blocks[:1] if subscription.acknowledged == offset else [])
