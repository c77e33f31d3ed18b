"""The client for code without an event loop: the asynchronous one on a loop in the background. It holds no logic."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from flowmesh.client.client import DEFAULT, Client, connect
from flowmesh.client.consumer import Start, StreamConsumer
from flowmesh.client.producer import StreamProducer
from flowmesh.client.received import ReceivedBatch
from flowmesh.client.session import TIMEOUT_S
from flowmesh.client.stream_handle import StreamHandle
from flowmesh.format.columns import Header, Record
from flowmesh.operations.messages import (
    FoundOffset,
    GroupDescription,
    NewToken,
    NodeDescription,
    PartitionAppend,
    StreamDescription,
    StreamSplits,
    TenantDescription,
    TokenDescription,
)

T = TypeVar("T")


class BackgroundLoop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="flowmesh-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # an interrupt here ends the work there
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Closing:
    """A context manager by way of `close`."""

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingProducer(_Closing):
    """`StreamProducer`, whose `send` returns once the record is in its batch."""

    def __init__(self, loop: BackgroundLoop, producer: StreamProducer) -> None:
        self._loop = loop
        self._producer = producer

    def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        time_ns: int | None = None,
        partition: int | None = None,
    ) -> None:
        send = self._producer.send
        self._loop.run(send(value, key=key, headers=headers, time_ns=time_ns, partition=partition))

    def send_many(self, values: Sequence[bytes | None], *, partition: int | None = None) -> None:
        self._loop.run(self._producer.send_many(values, partition=partition))

    def flush(self) -> None:
        self._loop.run(self._producer.flush())

    def close(self) -> None:
        self._loop.run(self._producer.close())


class BlockingConsumer(_Closing):
    """`StreamConsumer` as an ordinary iterator."""

    def __init__(self, loop: BackgroundLoop, consumer: StreamConsumer) -> None:
        self._loop = loop
        self._consumer = consumer

    def __iter__(self) -> Iterator[Record]:
        for batch in self.batches():
            yield from batch.records()

    def batches(self) -> Iterator[ReceivedBatch]:
        found = self._consumer.batches()
        while (batch := self._loop.run(_next_of(found))) is not None:
            yield batch

    @property
    def positions(self) -> dict[int, int]:
        return self._consumer.positions

    def close(self) -> None:
        self._loop.run(self._consumer.close())


async def _next_of(found: AsyncIterator[ReceivedBatch]) -> ReceivedBatch | None:
    return await anext(found, None)


class BlockingStream:
    """`StreamHandle`."""

    def __init__(self, loop: BackgroundLoop, handle: StreamHandle) -> None:
        self._loop = loop
        self._handle = handle

    def __str__(self) -> str:
        return str(self._handle)

    def describe(self) -> StreamDescription:
        return self._loop.run(self._handle.describe())

    def alter(self, **settings: Any) -> StreamDescription:
        return self._loop.run(self._handle.alter(**settings))

    def delete(self) -> None:
        self._loop.run(self._handle.delete())

    def find(self, *, partition: int = 0, time: str | None = None, at: str | None = None) -> FoundOffset:
        return self._loop.run(self._handle.find(partition=partition, time=time, at=at))

    def groups(self) -> list[GroupDescription]:
        return self._loop.run(self._handle.groups())

    def group(self, name: str) -> GroupDescription:
        return self._loop.run(self._handle.group(name))

    def commit_group(self, name: str, offsets: Mapping[int, int] | None = None, **options: Any) -> GroupDescription:
        return self._loop.run(self._handle.commit_group(name, offsets, **options))

    def delete_group(self, name: str) -> None:
        self._loop.run(self._handle.delete_group(name))

    def append(self, value: bytes | None, **options: Any) -> PartitionAppend:
        return self._loop.run(self._handle.append(value, **options))

    def append_many(self, values: Sequence[bytes | None], **options: Any) -> PartitionAppend:
        return self._loop.run(self._handle.append_many(values, **options))

    def read(self, offset: int | None = None, **options: Any) -> list[ReceivedBatch]:
        return self._loop.run(self._handle.read(offset, **options))

    def splits(
        self, partition: int = 0, offset: int | None = None, end_offset: int | None = None, **options: Any
    ) -> StreamSplits:
        return self._loop.run(self._handle.splits(partition, offset, end_offset, **options))

    def producer(self, **options: Any) -> BlockingProducer:
        return BlockingProducer(self._loop, self._loop.run(self._handle.producer(**options)))

    def consumer(self, start: Start = "latest", **options: Any) -> BlockingConsumer:
        async def make() -> StreamConsumer:
            made = self._handle.consumer(start, **options)
            await made.open()
            return made

        return BlockingConsumer(self._loop, self._loop.run(make()))


class BlockingClient(_Closing):
    """`Client`. Each method waits for its result; the time-outs are those of the asynchronous client."""

    def __init__(self, loop: BackgroundLoop, client: Client) -> None:
        self._loop = loop
        self._client = client

    def close(self) -> None:
        self._loop.run(self._client.close())
        self._loop.close()

    def stream(self, name: str, *, namespace: str = DEFAULT, tenant: str = DEFAULT) -> BlockingStream:
        return BlockingStream(self._loop, self._client.stream(name, namespace=namespace, tenant=tenant))

    def create_stream(self, name: str, **options: Any) -> BlockingStream:
        return BlockingStream(self._loop, self._loop.run(self._client.create_stream(name, **options)))

    def list_streams(self, *, namespace: str = DEFAULT, tenant: str = DEFAULT) -> list[str]:
        return self._loop.run(self._client.list_streams(namespace=namespace, tenant=tenant))

    def create_tenant(self, tenant: str) -> TenantDescription:
        return self._loop.run(self._client.create_tenant(tenant))

    def list_tenants(self) -> list[TenantDescription]:
        return self._loop.run(self._client.list_tenants())

    def delete_tenant(self, tenant: str) -> None:
        self._loop.run(self._client.delete_tenant(tenant))

    def create_token(self, **options: Any) -> NewToken:
        return self._loop.run(self._client.create_token(**options))

    def list_tokens(self, tenant: str | None = None) -> list[TokenDescription]:
        return self._loop.run(self._client.list_tokens(tenant))

    def revoke_token(self, token_id: str) -> None:
        self._loop.run(self._client.revoke_token(token_id))

    def rotate_token(self, token_id: str, *, overlap_s: int = 3600) -> NewToken:
        return self._loop.run(self._client.rotate_token(token_id, overlap_s=overlap_s))

    def describe_node(self) -> NodeDescription:
        return self._loop.run(self._client.describe_node())


def connect_blocking(
    url: str,
    *,
    token: str,
    ca_file: str | Path | None = None,
    tls: ssl.SSLContext | None = None,
    timeout_s: float = TIMEOUT_S,
) -> BlockingClient:
    """`connect` for code without an event loop. Use what it returns as a context manager, or close it."""
    loop = BackgroundLoop()

    async def open_client() -> Client:
        return await connect(url, token=token, ca_file=ca_file, tls=tls, timeout_s=timeout_s)

    try:
        return BlockingClient(loop, loop.run(open_client()))
    except BaseException:
        loop.close()
        raise
