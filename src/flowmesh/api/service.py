"""What the operations do: the asynchronous face of a node. Wires call it with requests that were admitted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple, TypeVar

from flowmesh.base.errors import BadRequest, Closed, FlowMeshError, NotFound, Unavailable
from flowmesh.base.limits import WRITER_QUEUE_BYTES_MAX
from flowmesh.host.writer import WriterThread
from flowmesh.log.commit import Committed, Item
from flowmesh.log.view import Chunk, Cursor, LogView
from flowmesh.node.node import Node
from flowmesh.node.partition import AppendReply, StreamPartition
from flowmesh.node.streams import OpenStream
from flowmesh.ports.clock import Clock
from flowmesh.streams.machine import AppendCommand
from flowmesh.streams.partitioner import partition_of

T = TypeVar("T")
AppendResult = AppendReply | FlowMeshError


class Change(NamedTuple):
    """An administrator's change, tried and over, for the audit log. Never holds a secret."""

    operation: str
    token: str
    """The id of the token that asked for it."""
    target: str
    outcome: str
    """`OK` or an error code."""


def _unaudited(change: Change) -> None:
    del change


class Service:
    """Runs on one event loop. Blocking work goes to the writer (changes) or to `readers` (cold reads)."""

    def __init__(self, node: Node, writer: WriterThread, readers: Executor, clock: Clock) -> None:
        self.node = node
        self.clock = clock
        self.started_ns = clock.wall_ns()
        self.draining = False
        self.audit: Callable[[Change], None] = _unaudited
        self._writer = writer
        self._readers = readers
        self._sleepers: set[Callable[[], None]] = set()

    # --- changes of the catalog ---------------------------------------------------------------------------------

    async def change(self, function: Callable[[], T]) -> T:
        """Runs a change on the thread that owns the logs."""
        self._require_serving()
        return await asyncio.wrap_future(self._writer.call(function))

    async def carry_out(self, log: Committed, command: Item) -> Any:
        """Has the writer carry out a command of a partition that is no stream's, in one commit with what else waits."""
        self._require_room()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def finish(results: Sequence[Any]) -> None:
            if not future.done():
                future.set_result(results[0])

        self._writer.submit(log, [command], finish)
        result = await future
        if isinstance(result, FlowMeshError):
            raise result
        return result

    # --- appending ----------------------------------------------------------------------------------------------

    def submit(
        self,
        partition: StreamPartition,
        commands: Sequence[AppendCommand],
        done: Callable[[Sequence[AppendResult]], None],
    ) -> None:
        """Appends, and calls `done` on the loop once the results hold. Refuses at once when too much waits."""
        self._require_room()

        def finish(results: Sequence[AppendResult]) -> None:
            done(results)
            partition.published()

        self._writer.submit(partition, commands, finish)

    async def append(self, partition: StreamPartition, commands: Sequence[AppendCommand]) -> Sequence[AppendResult]:
        """`submit` for those who can wait."""
        future: asyncio.Future[Sequence[AppendResult]] = asyncio.get_running_loop().create_future()

        def finish(results: Sequence[AppendResult]) -> None:
            if not future.done():
                future.set_result(results)

        self.submit(partition, commands, finish)
        return await future

    # --- reading ------------------------------------------------------------------------------------------------

    async def find_offset(
        self, partition: StreamPartition, offset: int | None, time_ns: int | None, at: str | None, default: str
    ) -> int:
        """The offset that one of three ways of saying it means."""
        if (offset is not None) + (time_ns is not None) + (at is not None) > 1:
            raise BadRequest("say one of 'offset', 'time' and 'at'.", field="offset")
        view = partition.view
        if offset is not None:
            return offset
        if time_ns is not None:
            return await self._on_reader(view.offset_for_time, time_ns)
        if at not in (None, "earliest", "latest"):
            raise BadRequest(f"'at' is {at!r}; it is 'earliest' or 'latest'.", field="at")
        return view.start_offset if (at or default) == "earliest" else view.end_offset

    async def read(
        self, partition: StreamPartition, offset: int, bytes_max: int, cursor: Cursor | None = None, wait_ms: int = 0
    ) -> Chunk:
        """Blocks from the one that holds `offset`. At the end it waits up to `wait_ms`, and may come back empty."""
        chunk = await self._read_now(partition.view, offset, bytes_max, cursor)
        if chunk.blocks or not wait_ms:
            return chunk
        await self.wait_for_more(partition, offset, wait_ms)
        return await self._read_now(partition.view, offset, bytes_max, cursor)

    async def _read_now(self, view: LogView, offset: int, bytes_max: int, cursor: Cursor | None) -> Chunk:
        hot = view.read_tail(offset, bytes_max)
        if hot is not None:
            return hot
        return await self._on_reader(view.read, offset, bytes_max, cursor)

    async def wait_for_more(self, partition: StreamPartition, offset: int, wait_ms: int) -> bool:
        """Whether there is something at `offset` now; waits for it as long as told, and not when the node stops."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        while partition.view.end_offset <= offset and not self.draining and loop.time() < deadline:
            if isinstance(partition.failure, Closed):
                raise NotFound("this stream was deleted.", field="name")
            woken: asyncio.Future[None] = loop.create_future()
            wake = partial(_wake, woken)
            timer = loop.call_at(deadline, wake)
            self._sleepers.add(wake)
            partition.on_published.append(wake)
            try:
                await woken
            finally:
                timer.cancel()
                self._sleepers.discard(wake)
                if wake in partition.on_published:
                    partition.on_published.remove(wake)
        return partition.view.end_offset > offset

    async def compute(self, function: Callable[..., T], *arguments: object) -> T:
        """Runs what would keep the loop too long, and touches nothing that others change."""
        return await self._on_reader(function, *arguments)

    async def _on_reader(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, function, *arguments)

    # --- ending -------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """No more changes from here on, and whoever waits is woken to go home."""
        self.draining = True
        for wake in list(self._sleepers):
            wake()

    def _require_room(self) -> None:
        self._require_serving()
        # Half of what the writer takes: the other half is for what is under way, so that the loop never waits in there.
        if self._writer.queued_bytes > WRITER_QUEUE_BYTES_MAX // 2:
            raise Unavailable(
                "more is waiting to be written than this node takes.", hint="Send less, or a little later."
            )

    def _require_serving(self) -> None:
        if self.draining:
            raise Unavailable("this node is stopping.", hint="Try again in a moment, or try another node.")


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


def choose_partition(stream: OpenStream, partition: int | None, key: bytes | None) -> int:
    """An explicit partition, or the one that the key belongs to, or the next in turn."""
    if partition is not None:
        stream.partition(partition)
        return partition
    if len(stream.partitions) == 1:
        return 0
    return stream.take_turn() if key is None else partition_of(key, len(stream.partitions))
