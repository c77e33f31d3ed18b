"""One partition on its way to a consumer: pushed by a subscription, or read where the subscription has ended."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from flowmesh.base.errors import FlowMeshError, SubscriptionStalled, TimedOut, Unavailable
from flowmesh.client.link import Link, LinkLost
from flowmesh.client.received import ReceivedBatch, received
from flowmesh.client.session import Pauses, Session
from flowmesh.format.frame import Frame, FrameKind
from flowmesh.operations.frames import BlocksRead, SubscriptionAck, error_of
from flowmesh.operations.messages import ReadRecords, Subscribe

_READ_WAIT_MS = 10_000
_decode_blocks = msgspec.msgpack.Decoder(BlocksRead).decode
_encode = msgspec.msgpack.Encoder().encode


class Place(NamedTuple):
    tenant: str
    namespace: str
    name: str
    partition: int


class Sink(Protocol):
    """The consumer, as its feeds see it."""

    @property
    def full(self) -> bool: ...

    def offer(self, feed: Feed, batches: list[ReceivedBatch]) -> None: ...

    async def room(self) -> None: ...


class Feed:
    def __init__(
        self, session: Session, place: Place, offset: int, window: int, verify: bool, end: int | None, sink: Sink
    ) -> None:
        self.place = place
        self.offset = self.taken = offset
        """The next offset to fetch, and the one after what the user has taken."""
        self._acknowledged = offset
        self._session = session
        self._window = window
        self._verify = verify
        self._end = end
        self._sink = sink
        self._link: Link | None = None
        self._correlation: int | None = None
        self._pauses = Pauses()

    async def run(self) -> None:
        """Until the end that was asked for, if there is one; through lost connections and stalls."""
        while self._end is None or self.offset < self._end:
            try:
                await self._subscribe()
            except SubscriptionStalled:
                await self._catch_up()
            except (TimedOut, Unavailable):
                await self._pauses.pause()

    # --- pushed -------------------------------------------------------------------------------------------------

    async def _subscribe(self) -> None:
        """Takes pushes until the subscription ends, and raises what ended it."""
        await self._sink.room()
        link = await self._session.link()
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        request = Subscribe(*self.place, offset=self.offset, window=self._window)
        self._acknowledged = self.offset
        self._link = link
        self._correlation = None
        try:
            answer = await self._session.call("stream.subscribe", request, on_push=partial(self._on_push, over))
            self._correlation = answer.correlation
            self._pauses.reset()
            self._acknowledge(force=True)
            await over
        finally:
            over.cancel()
            self._link = None
            link.pause_reading(False)
            if self._correlation is not None:
                link.tell(FrameKind.CANCEL, self._correlation)

    def _on_push(self, over: asyncio.Future[None], item: Frame) -> None:
        if over.done():
            return  # of a subscription that was given up
        try:
            if item.kind == FrameKind.END:
                raise error_of(item.header).error if item.header else LinkLost("the subscription ended.")
            self._take_blocks(item)
        except FlowMeshError as error:
            over.set_exception(error)
            return
        if self._end is not None and self.offset >= self._end:
            over.set_result(None)
        elif self._sink.full and self._link is not None:
            self._link.pause_reading(True)

    def _take_blocks(self, item: Frame) -> None:
        found = received(self.place.partition, item.body, self.offset, verify=self._verify)
        self.offset = _decode_blocks(item.header).next_offset
        if found:
            self._sink.offer(self, found)

    # --- read ---------------------------------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        """Reads until nothing is left, each time as much as there is room for."""
        while self._end is None or self.offset < self._end:
            await self._sink.room()
            request = ReadRecords(*self.place, offset=self.offset)
            item = await self._session.call("stream.read", request, repeatable=True)
            before = self.offset
            self._take_blocks(item)
            if self.offset == before:
                return

    # --- what the user takes ------------------------------------------------------------------------------------

    def take(self, batch: ReceivedBatch, *, idle: bool) -> None:
        """The user is done with this batch."""
        self.taken = batch.end_offset
        self._acknowledge(force=idle)

    def _acknowledge(self, *, force: bool) -> None:
        behind = self.taken - self._acknowledged
        if self._link is None or self._correlation is None or behind <= 0:
            return
        if force or behind >= self._window // 4:
            self._acknowledged = self.taken
            self._link.tell(FrameKind.ACK, self._correlation, _encode(SubscriptionAck(self.taken)))

    def go_on(self) -> None:
        """There is room again."""
        if self._link is not None:
            self._link.pause_reading(False)
