"""One stream, as a client holds it: appending, reading, and the makers of producers and consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from flowmesh.base.errors import BadRequest
from flowmesh.base.limits import READ_BYTES_DEFAULT, SPLIT_BYTES_DEFAULT
from flowmesh.client.bookmark import COMMIT_INTERVAL_S, Bookmark
from flowmesh.client.consumer import Start, StreamConsumer
from flowmesh.client.outbox import wire_form
from flowmesh.client.payload import explained, require_bytes
from flowmesh.client.producer import StreamProducer
from flowmesh.client.received import ReceivedBatch, received
from flowmesh.client.session import Session
from flowmesh.format import columns
from flowmesh.format.batch import Codec
from flowmesh.format.columns import Header
from flowmesh.format.frame import FrameFlag
from flowmesh.operations import messages
from flowmesh.operations.frames import BlocksRead, SingleAppend
from flowmesh.operations.messages import (
    AppendReceipt,
    GroupDescription,
    PartitionAppend,
    StreamDescription,
    StreamSplits,
)

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

    # --- groups -------------------------------------------------------------------------------------------------

    async def groups(self) -> list[GroupDescription]:
        """Who reads this stream by name: positions, lag and holds."""
        request = messages.ListGroups(*self.place)
        return (await self._session.request("group.list", request, messages.GroupList, repeatable=True)).groups

    async def group(self, name: str) -> GroupDescription:
        request = messages.DescribeGroup(*self.place, name)
        return await self._session.request("group.describe", request, GroupDescription, repeatable=True)

    async def commit_group(
        self,
        name: str,
        offsets: Mapping[int, int] | None = None,
        *,
        kind: str = "consumer",
        hold_s: int | None = None,
        location: str | None = None,
    ) -> GroupDescription:
        """Says for each partition which offset the group reads next; partitions that are not named stay as they are.

        Everything else is said anew by each commit: without `hold_s` nothing is held any more.
        """
        request = messages.CommitGroup(*self.place, name, dict(offsets or {}), kind, hold_s, location)
        return await self._session.request("group.commit", request, GroupDescription, repeatable=True)

    async def delete_group(self, name: str) -> None:
        await self._session.request("group.delete", messages.DeleteGroup(*self.place, name), messages.Empty)

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
        require_bytes(value, key, headers)
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
        try:
            batch = columns.encode(
                values, keys=keys, headers=headers, times_ns=times_ns, codec=Codec.ZSTD if compress else Codec.NONE
            )
        except BadRequest as error:
            raise explained(error, values) from error
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

    async def splits(
        self,
        partition: int = 0,
        offset: int | None = None,
        end_offset: int | None = None,
        *,
        split_bytes: int = SPLIT_BYTES_DEFAULT,
    ) -> StreamSplits:
        """A range of a partition, cut into pieces of about `split_bytes` that can be read side by side."""
        request = messages.SplitStream(*self.place, partition, offset, end_offset, split_bytes)
        return await self._session.request("stream.split", request, StreamSplits, repeatable=True)

    def consumer(
        self,
        start: Start = "latest",
        *,
        partitions: Sequence[int] | None = None,
        window: int = 100_000,
        verify: bool = False,
        until_end: bool = False,
        group: str | None = None,
        hold_s: int | None = None,
        commit_interval_s: float = COMMIT_INTERVAL_S,
    ) -> StreamConsumer:
        """Iterates over records from `start` on (`earliest`, `latest`, an offset, a time) and follows what is appended.

        `until_end` stops at the end that the stream has now. `verify` computes every hash again.

        With a `group` it begins where that group has come to, at `start` only where the group has never been, and
        commits the batches that it is done with every `commit_interval_s` and when it is closed. None is left out;
        after a crash, and of a batch that was left in its middle, records come again. With `hold_s` retention keeps
        what it has not read until so long after it is gone. Let one consumer at a time read a partition for a group.
        """
        bookmark = None
        if group is not None:
            bookmark = Bookmark(self._session, self.place, group, hold_s, commit_interval_s)
        elif hold_s is not None:
            raise BadRequest("a hold belongs to a group.", field="hold_s", hint="Say which one with group=….")
        return StreamConsumer(
            self._session,
            self.place,
            start,
            partitions=partitions,
            window=window,
            verify=verify,
            until_end=until_end,
            bookmark=bookmark,
        )
