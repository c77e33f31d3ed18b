"""One stream, as a client holds it: appending, reading, and the makers of producers and consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from flowmesh.base.errors import BadRequest
from flowmesh.base.limits import READ_BYTES_DEFAULT
from flowmesh.client.consumer import Start, StreamConsumer
from flowmesh.client.outbox import wire_form
from flowmesh.client.producer import StreamProducer
from flowmesh.client.received import ReceivedBatch, received
from flowmesh.client.session import Session
from flowmesh.format import columns
from flowmesh.format.batch import Codec
from flowmesh.format.columns import Header
from flowmesh.format.frame import FrameFlag
from flowmesh.operations import messages
from flowmesh.operations.frames import BlocksRead, SingleAppend
from flowmesh.operations.messages import AppendReceipt, PartitionAppend, StreamDescription

_WAIT_MARGIN_S = 5.0


class StreamHandle:
    """Made by `client.stream(...)`. It holds nothing open and needs no closing."""

    def __init__(self, session: Session, tenant: str, namespace: str, name: str) -> None:
        self.place = (tenant, namespace, name)
        self._session = session

    def __repr__(self) -> str:
        return f"<stream {self}>"

    def __str__(self) -> str:
        return "/".join(self.place)

    # --- about it -----------------------------------------------------------------------------------------------

    async def describe(self) -> StreamDescription:
        request = messages.DescribeStream(*self.place)
        return await self._session.request("stream.describe", request, StreamDescription, repeatable=True)

    async def alter(self, **settings: Any) -> StreamDescription:
        """Retention, segment limits, durability, named as in `create_stream`; None takes a limit away."""
        try:
            request = messages.AlterStream(*self.place, **settings)
        except TypeError as error:
            raise BadRequest(f"this cannot be altered: {error}", field="settings") from error
        return await self._session.request("stream.alter", request, StreamDescription)

    async def delete(self) -> None:
        await self._session.request("stream.delete", messages.DeleteStream(*self.place), messages.Empty)

    async def find(self, *, partition: int = 0, time: str | None = None, at: str | None = None) -> messages.FoundOffset:
        """The offset of a time, or of the `earliest` or `latest` record, and the bounds of the partition."""
        request = messages.FindOffset(*self.place, partition, time, at)
        return await self._session.request("stream.find", request, messages.FoundOffset, repeatable=True)

    # --- appending ----------------------------------------------------------------------------------------------

    async def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        time_ns: int | None = None,
        partition: int | None = None,
    ) -> PartitionAppend:
        """One record; returns once it is stored. For many, `append_many` or a producer cost far less."""
        request = SingleAppend(*self.place, partition, key, tuple(headers), time_ns, value is None)
        appended = await self._session.request("stream.append", request, AppendReceipt, body=value or b"")
        return appended.appends[0]

    async def append_many(
        self,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Sequence[Header]] | None = None,
        times_ns: Sequence[int] | None = None,
        partition: int | None = None,
        compress: bool = False,
    ) -> PartitionAppend:
        """Records as one batch: all of them are stored, or none. They go to one partition, whatever their keys are."""
        batch = columns.encode(
            values, keys=keys, headers=headers, times_ns=times_ns, codec=Codec.ZSTD if compress else Codec.NONE
        )
        request = messages.AppendRecords(*self.place, partition)
        appended = await self._session.request(
            "stream.append", request, AppendReceipt, body=wire_form(batch), flags=FrameFlag.BATCH
        )
        return appended.appends[0]

    async def producer(self, **options: Any) -> StreamProducer:
        """A producer; its options are those of `StreamProducer`: `batch_bytes`, `linger_ms`, `max_in_flight`, …"""
        described = await self.describe()
        return StreamProducer(self._session, self.place, len(described.partitions), **options)

    # --- reading ------------------------------------------------------------------------------------------------

    async def read(
        self,
        offset: int | None = None,
        *,
        partition: int = 0,
        time: str | None = None,
        at: str | None = None,
        limit: int | None = None,
        bytes_max: int = READ_BYTES_DEFAULT,
        wait_ms: int = 0,
    ) -> list[ReceivedBatch]:
        """Batches from an offset, a time, or `earliest` or `latest` on; nothing when there is nothing yet.

        Whole batches come, so there may be more records than `limit`.
        """
        if offset is None:
            offset = (await self.find(partition=partition, time=time, at=at)).offset
        request = messages.ReadRecords(
            *self.place, partition, offset, limit=limit, bytes_max=bytes_max, wait_ms=wait_ms
        )
        answer = await self._session.call(
            "stream.read", request, repeatable=True, timeout_s=self._session.timeout_s + wait_ms / 1000 + _WAIT_MARGIN_S
        )
        msgspec.msgpack.decode(answer.header, type=BlocksRead)
        return received(partition, answer.body, offset)

    def consumer(
        self,
        start: Start = "latest",
        *,
        partitions: Sequence[int] | None = None,
        window: int = 100_000,
        verify: bool = False,
        until_end: bool = False,
    ) -> StreamConsumer:
        """Iterates over records from `start` on (`earliest`, `latest`, an offset, a time) and follows what is appended.

        `until_end` stops at the end that the stream has now. `verify` computes every hash again.
        """
        return StreamConsumer(
            self._session,
            self.place,
            start,
            partitions=partitions,
            window=window,
            verify=verify,
            until_end=until_end,
        )
