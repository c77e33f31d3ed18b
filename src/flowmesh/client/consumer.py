"""A consumer: the partitions of a stream, each fed over one connection of its own, given out as they come.

It follows by subscription. When the node ends one because nothing was taken for long, it goes on with reads, and
subscribes again once it has caught up. What lies ready here is bounded: beyond that the connection is not read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

import msgspec

from flowmesh.base.errors import Closed, OffsetOutOfRange
from flowmesh.base.limits import MIB
from flowmesh.client.bookmark import Bookmark
from flowmesh.client.feed import Feed, Place
from flowmesh.client.received import ReceivedBatch
from flowmesh.client.session import Session
from flowmesh.format.columns import Record
from flowmesh.operations.messages import DescribeStream, FindOffset, FoundOffset, StreamDescription

BUFFER_BYTES = 16 * MIB
Start = str | int | datetime
"""`earliest`, `latest`, an ISO time, an offset, or a datetime."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class StreamConsumer:
    """Iterate over it for records, over `batches()` for columns. Use it as a context manager, or close it."""

    def __init__(
        self,
        session: Session,
        place: tuple[str, str, str],
        start: Start = "latest",
        *,
        partitions: Sequence[int] | None = None,
        window: int = 100_000,
        verify: bool = False,
        until_end: bool = False,
        bookmark: Bookmark | None = None,
    ) -> None:
        self._session = session.sibling()
        self._place = place
        self._start = start
        self._numbers = partitions
        self._window = window
        self._verify = verify
        self._until_end = until_end
        self._bookmark = bookmark
        self._committing: asyncio.Task[None] | None = None
        self._ready: deque[tuple[Feed, ReceivedBatch]] = deque()
        self._ready_bytes = 0
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._feeds: list[Feed] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._given: tuple[Feed, ReceivedBatch] | None = None
        self._failure: BaseException | None = None
        self._closed = False

    # --- for users ----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Record]:
        return self._records()

    async def _records(self) -> AsyncIterator[Record]:
        async for batch in self.batches():
            for record in batch.records():
                yield record

    async def batches(self) -> AsyncGenerator[ReceivedBatch, None]:
        """Batch by batch. Asking for the next one says that the one before is done with."""
        await self.open()
        while (batch := await self._next()) is not None:
            yield batch

    async def open(self) -> None:
        """Finds out where to begin. Iterating does it, too; here, records appended from now on are surely seen.

        A consumer that cannot begin is closed by that.
        """
        if self._closed:
            raise Closed("this consumer is closed.")
        if self._feeds is not None:
            return
        try:
            self._feeds = await self._find_all()
            if self._bookmark is not None:
                await self._bookmark.commit(self.positions)  # also 'latest' is one place from here on
        except BaseException:
            await self.close()
            raise
        for feed in self._feeds:
            task = asyncio.create_task(feed.run())
            task.add_done_callback(self._on_end)
            self._tasks.append(task)
        if self._bookmark is not None:
            self._committing = asyncio.create_task(self._bookmark.run(lambda: self.positions))
            self._committing.add_done_callback(self._on_end)

    async def _find_all(self) -> list[Feed]:
        """A feed for each partition, at the offset where it begins."""
        tenant, namespace, name = self._place
        if self._numbers is None:
            described = await self._session.request(
                "stream.describe", DescribeStream(tenant, namespace, name), StreamDescription, repeatable=True
            )
            self._numbers = [partition.partition for partition in described.partitions]
        known = {} if self._bookmark is None else await self._bookmark.find()
        feeds: list[Feed] = []
        bounds: list[FoundOffset] = []
        for number in self._numbers:
            place = Place(tenant, namespace, name, number)
            found = await self._find(place, known.get(number, self._start))
            end = found.end_offset if self._until_end else None
            feeds.append(Feed(self._session, place, found.offset, self._window, self._verify, end, self))
            bounds.append(found)
        self._require_reachable(bounds)
        return feeds

    def _require_reachable(self, bounds: list[FoundOffset]) -> None:
        """Who asks for all up to the end, from an offset that no partition has come to, has mistaken something."""
        if self._until_end and bounds and all(found.offset > found.end_offset for found in bounds):
            found = max(bounds, key=lambda each: each.end_offset)
            raise OffsetOutOfRange(found.offset, found.start_offset, found.end_offset)

    async def close(self) -> None:
        first, self._closed = not self._closed, True
        try:
            if first and self._bookmark is not None and self._committing is not None:
                self._committing.cancel()
                await self._bookmark.end(self.positions)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._session.close()
            self._more.set()

    @property
    def positions(self) -> dict[int, int]:
        """For each partition the offset after the last batch that was done with: where another consumer goes on."""
        return {feed.place.partition: feed.taken for feed in self._feeds or ()}

    # --- what feeds bring ---------------------------------------------------------------------------------------

    def offer(self, feed: Feed, batches: list[ReceivedBatch]) -> None:
        for batch in batches:
            self._ready.append((feed, batch))
            self._ready_bytes += batch.batch.size
        if self._ready_bytes >= BUFFER_BYTES:
            self._room.clear()
        self._more.set()

    @property
    def full(self) -> bool:
        return not self._room.is_set()

    async def room(self) -> None:
        await self._room.wait()

    def _on_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()
        self._more.set()

    async def _next(self) -> ReceivedBatch | None:
        """The next batch; None when there is an end and it was reached."""
        if self._given is not None:
            feed, batch = self._given
            self._given = None
            feed.take(batch, idle=not self._ready)
        while not self._ready:
            if self._failure is not None:
                raise self._failure
            if self._closed:
                raise Closed("this consumer is closed.")
            if all(task.done() for task in self._tasks):
                return None
            self._more.clear()
            await self._more.wait()
        self._given = feed, batch = self._ready.popleft()
        self._ready_bytes -= batch.batch.size
        if self._ready_bytes <= BUFFER_BYTES // 2 and self.full:
            self._room.set()
            for each in self._feeds or ():
                each.go_on()
        return batch

    async def _find(self, place: Place, start: Start) -> FoundOffset:
        at = start if start in ("earliest", "latest") else None
        time = None
        if isinstance(start, datetime):
            time = str(_nanoseconds(start))
        elif isinstance(start, str) and at is None:
            time = start
        request = FindOffset(*place, time=time, at=str(at) if at else None)
        found = await self._session.request("stream.find", request, FoundOffset, repeatable=True)
        return msgspec.structs.replace(found, offset=start) if isinstance(start, int) else found


def _nanoseconds(moment: datetime) -> int:
    """Exact, which a float of seconds would not be. A time without a zone is UTC, as everywhere here."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * 1000
