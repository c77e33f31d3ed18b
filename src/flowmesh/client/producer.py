"""A producer: gathers records into batches by size and time, and delivers each one once, whatever happens."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from flowmesh.base.errors import BadRequest, Closed, FlowMeshError, TooLarge
from flowmesh.base.limits import MIB, RECORD_BYTES_MAX, REQUEST_BYTES_MAX
from flowmesh.client.outbox import Outbox, Parcel, wire_form
from flowmesh.client.payload import explained, require_bytes
from flowmesh.client.session import Session
from flowmesh.format import columns
from flowmesh.format.batch import ANONYMOUS, Codec, Producer
from flowmesh.format.columns import Header
from flowmesh.operations.messages import AppendRecords, PartitionAppend
from flowmesh.streams.partitioner import partition_of
from flowmesh.streams.producers import REMEMBERED_BATCHES

BATCH_RECORDS_MAX = 100_000
_RECORD_COST = 16
"""What a record weighs beside its bytes, so that a million empty ones are not a batch of nothing."""


class _Filling:
    """The batch of one partition that is still open."""

    __slots__ = ("done", "headers", "keys", "linger", "size", "times", "values")

    def __init__(self, done: asyncio.Future[PartitionAppend]) -> None:
        self.values: list[bytes | None] = []
        self.keys: dict[int, bytes] = {}
        self.headers: dict[int, Sequence[Header]] = {}
        self.times: dict[int, int] = {}
        self.size = 0
        self.done = done
        self.linger: asyncio.TimerHandle | None = None


class StreamProducer:
    """Made by `stream.producer()`. Close it, or use it as a context manager, so that the last batch goes out."""

    def __init__(
        self,
        session: Session,
        place: tuple[str, str, str],
        partitions: int,
        *,
        batch_bytes: int = MIB,
        linger_ms: float = 5.0,
        max_in_flight: int = REMEMBERED_BATCHES,
        idempotent: bool = True,
        compress: bool = False,
        buffer_bytes: int = 64 * MIB,
        delivery_timeout_s: float = 120.0,
    ) -> None:
        if not 1 <= batch_bytes <= REQUEST_BYTES_MAX // 2:
            raise BadRequest(f"batch_bytes goes from 1 to {REQUEST_BYTES_MAX // 2}.", field="batch_bytes")
        most = REMEMBERED_BATCHES if idempotent else 1000
        if not 1 <= max_in_flight <= most:
            raise BadRequest(
                f"max_in_flight goes from 1 to {most}.", field="max_in_flight", hint="The node remembers no more."
            )
        self.id = secrets.randbelow(2**63 - 1) + 1 if idempotent else 0
        """Given to the node with each batch, which then knows what it has already."""
        self._session = session
        self._batch_bytes = batch_bytes
        self._linger_s = linger_ms / 1000
        self._codec = Codec.ZSTD if compress else Codec.NONE
        self._buffer_bytes = buffer_bytes
        self._delivery_timeout_s = delivery_timeout_s
        self._filling: list[_Filling | None] = [None] * partitions
        self._sequences = [0] * partitions
        requests = [AppendRecords(*place, partition=number) for number in range(partitions)]
        self._outboxes = [
            Outbox(session, request, max_in_flight, idempotent=idempotent, keeper=self) for request in requests
        ]
        self._turn = secrets.randbelow(partitions)
        self._held_bytes = 0
        """Open, waiting or under way."""
        self._changed = asyncio.Event()
        self._failure: FlowMeshError | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- sending ------------------------------------------------------------------------------------------------

    async def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        time_ns: int | None = None,
        partition: int | None = None,
    ) -> asyncio.Future[PartitionAppend]:
        """Puts a record into its partition's batch. Waits only when too much is under way.

        What it returns is the batch's receipt: await it to know that the record is stored, or leave it to `flush`.
        """
        if type(value) is not bytes or key is not None or headers:
            require_bytes(value, key, headers)
        size = _size_of(value, key, headers)
        if self._held_bytes >= self._buffer_bytes or self._failure is not None or self._closed:
            await self._wait_for_room()
        number = self._choose(partition, key)
        filling = self._open(number)
        row = len(filling.values)
        filling.values.append(value)
        if key is not None:
            filling.keys[row] = key
        if headers:
            filling.headers[row] = headers
        if time_ns is not None:
            filling.times[row] = time_ns
        self._grow(number, filling, size)
        return filling.done

    async def send_many(self, values: Sequence[bytes | None], *, partition: int | None = None) -> None:
        """Many records without keys at once; far cheaper than one by one. Whole batches go to one partition each."""
        sizes = [len(value or b"") for value in values]
        if sizes and max(sizes) > RECORD_BYTES_MAX:
            raise TooLarge(f"a record of {max(sizes)} bytes is over the limit of {RECORD_BYTES_MAX}.", field="value")
        average = sum(sizes) // (len(sizes) or 1) + _RECORD_COST
        step = max(1, min(BATCH_RECORDS_MAX, self._batch_bytes // average))
        for first in range(0, len(values), step):
            await self._wait_for_room()
            number = self._choose(partition, None)
            filling = self._open(number)
            filling.values += values[first : first + step]
            size = sum(sizes[first : first + step])
            self._grow(number, filling, size + _RECORD_COST * len(values[first : first + step]))

    async def flush(self) -> None:
        """Sends what is open and waits until everything is acknowledged. Raises what kept a batch from it."""
        receipts = self._seal_all()
        while self._held_bytes:
            await self._change()
        await asyncio.gather(*receipts, return_exceptions=True)
        self._require_sound()

    async def close(self) -> None:
        """`flush`, and the end of this producer."""
        if self._closed:
            return
        try:
            await self.flush()
        finally:
            self._closed = True
            await asyncio.gather(*(outbox.close() for outbox in self._outboxes))

    # --- batches ------------------------------------------------------------------------------------------------

    def _choose(self, partition: int | None, key: bytes | None) -> int:
        count = len(self._filling)
        if partition is not None:
            if not 0 <= partition < count:
                raise BadRequest(f"the stream has partitions 0 to {count - 1}, not {partition}.", field="partition")
            return partition
        # Without a key one batch is filled before the next partition has its turn: full batches, fewer of them.
        return self._turn if key is None else partition_of(key, count)

    def _open(self, number: int) -> _Filling:
        filling = self._filling[number]
        if filling is None:
            loop = asyncio.get_running_loop()
            filling = self._filling[number] = _Filling(loop.create_future())
            filling.linger = loop.call_later(self._linger_s, self._seal, number)
        return filling

    def _grow(self, number: int, filling: _Filling, size: int) -> None:
        filling.size += size
        self._held_bytes += size
        if filling.size >= self._batch_bytes or len(filling.values) >= BATCH_RECORDS_MAX:
            self._seal(number)

    def _seal(self, number: int) -> None:
        filling = self._filling[number]
        if filling is None:
            return
        self._filling[number] = None
        if number == self._turn:
            self._turn = (number + 1) % len(self._filling)
        if filling.linger is not None:
            filling.linger.cancel()
        try:
            data = self._encoded(number, filling)
        except FlowMeshError as fault:
            error = explained(fault, filling.values)
            filling.done.set_exception(error)
            self.settled(filling.size)
            self.broken(error)
            return
        deadline = asyncio.get_running_loop().time() + self._delivery_timeout_s
        self._outboxes[number].put(Parcel(data, filling.size, filling.done, deadline))

    def _encoded(self, number: int, filling: _Filling) -> bytes:
        rows = range(len(filling.values))
        producer = ANONYMOUS
        if self.id:
            producer = Producer(self.id, 0, self._sequences[number])
        batch = columns.encode(
            filling.values,
            keys=[filling.keys.get(row) for row in rows] if filling.keys else None,
            headers=[filling.headers.get(row, ()) for row in rows] if filling.headers else None,
            times_ns=_times(filling, len(rows)),
            codec=self._codec,
            producer=producer,
        )
        self._sequences[number] += len(rows)
        return wire_form(batch)

    def _seal_all(self) -> list[asyncio.Future[PartitionAppend]]:
        receipts = [filling.done for filling in self._filling if filling is not None]
        for number in range(len(self._filling)):
            self._seal(number)
        return receipts

    # --- what outboxes report -----------------------------------------------------------------------------------

    def settled(self, size: int) -> None:
        self._held_bytes -= size
        self._changed.set()

    def broken(self, error: FlowMeshError) -> None:
        """A batch could not be delivered. An idempotent producer ends here: what follows would leave a gap."""
        self._failure = self._failure or error

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _wait_for_room(self) -> None:
        """Before each record, so that a producer that is used after its end says so."""
        while self._held_bytes >= self._buffer_bytes and self._failure is None:
            await self._change()
        self._require_sound()
        if self._closed:
            raise Closed("this producer is closed.")

    def _require_sound(self) -> None:
        failure = self._failure
        if not self.id:
            self._failure = None  # said once; without a sequence the next batch does not depend on the one that is lost
        if failure is not None:
            raise failure


def _size_of(value: bytes | None, key: bytes | None, headers: Sequence[Header]) -> int:
    size = _RECORD_COST + len(value or b"") + len(key or b"")
    if headers:
        size += sum(len(name) + len(content) for name, content in headers)
    if size > RECORD_BYTES_MAX:
        raise TooLarge(f"a record of {size} bytes is over the limit of {RECORD_BYTES_MAX}.", field="value")
    return size


def _times(filling: _Filling, count: int) -> list[int] | None:
    """None lets the node stamp them all; next to records that bring a time the others get that of now."""
    if not filling.times:
        return None
    now = time.time_ns()
    return [filling.times.get(row, now) for row in range(count)]
