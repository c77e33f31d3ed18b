"""One partition's batches on their way to the node: in order, a few at a time, sent again until they are acknowledged.

With a producer id a batch that is sent twice is stored once. The first batch of all goes alone: before one was stored
the node takes any sequence as the first, and a later batch must not become that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple, Protocol

import msgspec

from flowmesh.base.errors import Closed, ErrorCode, FlowMeshError, TimedOut
from flowmesh.client.link import Link
from flowmesh.client.session import Pauses, Session
from flowmesh.format import batch as batches
from flowmesh.format.batch import Batch
from flowmesh.format.frame import Frame, FrameFlag, FrameKind
from flowmesh.operations.messages import AppendReceipt, AppendRecords, PartitionAppend
from flowmesh.operations.table import BY_NAME

_APPEND = BY_NAME["stream.append"].code
_BATCH = int(FrameFlag.BATCH)
_UNKNOWN = frozenset({ErrorCode.TIMED_OUT, ErrorCode.STORAGE_FAILED, ErrorCode.CLOSED, ErrorCode.INTERNAL})
"""After these nobody knows whether the batch was stored; without a producer id it is not sent again."""
_PASSING = _UNKNOWN | {ErrorCode.UNAVAILABLE, ErrorCode.DISK_FULL, ErrorCode.TOO_MANY_REQUESTS}
"""What may be gone when the same is tried again."""
_decode = msgspec.msgpack.Decoder(AppendReceipt).decode


class Parcel(NamedTuple):
    """A batch that is to be delivered, and who is told."""

    data: bytes
    size: int
    done: asyncio.Future[PartitionAppend]
    deadline: float


class Bookkeeper(Protocol):
    """The producer, as its outboxes see it."""

    def settled(self, size: int) -> None: ...

    def broken(self, error: FlowMeshError) -> None: ...


class _UnderWay(NamedTuple):
    parcel: Parcel
    answer: asyncio.Future[Frame]


def wire_form(batch: Batch) -> bytes:
    """A batch as it goes over the wire; what only the log knows is left empty."""
    return b"".join((batches.HEADER.pack(*batch.header), batch.body))


class Outbox:
    def __init__(
        self, session: Session, request: AppendRecords, max_in_flight: int, *, idempotent: bool, keeper: Bookkeeper
    ) -> None:
        self._session = session
        self._header = msgspec.msgpack.encode(request)
        self._limit = max_in_flight
        self._idempotent = idempotent
        self._keeper = keeper
        self._waiting: deque[Parcel] = deque()
        self._under_way: deque[_UnderWay] = deque()
        self._stored_once = False
        self._wake: asyncio.Future[None] | None = None
        self._current: Link | None = None
        self._pauses = Pauses()
        self._task: asyncio.Task[None] | None = None

    def put(self, parcel: Parcel) -> None:
        self._waiting.append(parcel)
        self._rouse()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # --- sending ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                try:
                    while self._waiting or self._under_way:
                        await self._step()
                    await self._sleep(None)
                except FlowMeshError as error:
                    await self._sort_out(error)
                    await self._pauses.pause()
        except asyncio.CancelledError:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """The work ends here, with the producer or with the event loop: nobody waits for what will not come."""
        fault = Closed("the producer was ended before this was acknowledged; the outcome is unknown.")
        rest = [*(item.parcel for item in self._under_way), *self._waiting]
        self._under_way, self._waiting = deque(), deque()
        for parcel in rest:
            self._give_up(parcel, fault)

    async def _step(self) -> None:
        """Takes the oldest answer if it is there; else sends what may go, and waits."""
        loop = asyncio.get_running_loop()
        limit = self._limit if self._stored_once or not self._idempotent else 1
        link = await self._link()
        # Nothing goes over a new connection before what the old one lost: the node remembers only the last few batches.
        if self._under_way and self._under_way[0].answer.done():
            self._take_answer()
            return
        while self._waiting and len(self._under_way) < limit:
            await link.writable.wait()
            parcel = self._waiting[0]
            answer = link.call(FrameKind.REQUEST, _APPEND, self._header, parcel.data, flags=_BATCH)
            answer.add_done_callback(lambda _: self._rouse())
            self._under_way.append(_UnderWay(self._waiting.popleft(), answer))
        parcel, answer = self._under_way[0]
        if not answer.done():
            patience_s = min(self._session.timeout_s, parcel.deadline - loop.time())
            if not await self._sleep(patience_s) and not answer.done():
                link.abort()
                raise TimedOut("no answer came in time; the outcome is unknown.")

    def _take_answer(self) -> None:
        parcel, answer = self._under_way[0]
        appended = _decode(answer.result().header)
        self._under_way.popleft()
        self._deliver(parcel, appended)

    async def _link(self) -> Link:
        """The connection, within the time that the oldest batch still has."""
        oldest = self._under_way[0].parcel if self._under_way else self._waiting[0]
        try:
            async with asyncio.timeout_at(oldest.deadline):
                self._current = await self._session.link()
                return self._current
        except TimeoutError:
            raise TimedOut(f"{self._session.address} could not be reached; the outcome is unknown.") from None

    def _rouse(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _sleep(self, patience_s: float | None) -> bool:
        """Until something was put in or answered; False when that took too long."""
        self._wake = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(patience_s):
                await self._wake
        except TimeoutError:
            return False
        finally:
            self._wake = None
        return True

    # --- answers ------------------------------------------------------------------------------------------------

    def _deliver(self, parcel: Parcel, appended: AppendReceipt) -> None:
        self._stored_once = True
        self._pauses.reset()
        if not parcel.done.done():
            parcel.done.set_result(appended.appends[0])
        self._keeper.settled(parcel.size)

    async def _sort_out(self, error: FlowMeshError) -> None:
        """After a fault: everything under way is answered or lost first, then whatever may be is sent again."""
        under_way = list(self._under_way)
        answers = [item.answer for item in under_way]
        if answers:
            _, late = await asyncio.wait(answers, timeout=self._session.timeout_s)
            if late and self._current is not None:
                self._current.abort()
        self._under_way = deque()
        again: list[Parcel] = []
        for parcel, answer in under_way:
            fault = answer.exception()
            if fault is None:
                self._deliver(parcel, _decode(answer.result().header))
            elif isinstance(fault, FlowMeshError) and self._may_go_again(parcel, fault, after_another=bool(again)):
                again.append(parcel)
            else:
                self._give_up(parcel, fault)
        self._waiting.extendleft(reversed(again))
        if self._waiting and not under_way:
            first = self._waiting[0]
            if not self._may_go_again(first, error, after_another=False):
                self._give_up(self._waiting.popleft(), error)

    def _may_go_again(self, parcel: Parcel, fault: FlowMeshError, *, after_another: bool) -> bool:
        if asyncio.get_running_loop().time() >= parcel.deadline:
            return False
        if fault.code in _UNKNOWN:
            return self._idempotent
        # The batch before it was not stored, so this one came out of order: it goes after that one.
        follows = fault.code is ErrorCode.OUT_OF_ORDER_SEQUENCE and after_another and self._idempotent
        return follows or fault.code in _PASSING

    def _give_up(self, parcel: Parcel, fault: BaseException) -> None:
        if not parcel.done.done():
            parcel.done.set_exception(fault)
            parcel.done.exception()  # the producer tells, too; a receipt that nobody looks at is no mistake
        self._keeper.settled(parcel.size)
        if isinstance(fault, FlowMeshError):
            self._keeper.broken(fault)
            if self._idempotent:
                # What follows would leave a gap in the sequence, and be refused one by one.
                rest, self._waiting = list(self._waiting), deque()
                for other in rest:
                    self._give_up(other, fault)
