"""Consumers: where they begin, how they follow, what slow users cost, and that nothing is lost or repeated."""

import asyncio
import contextlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

import flowmesh
from flowmesh.base import errors
from flowmesh.client import Client, consumer
from flowmesh.client.stream_handle import StreamHandle
from flowmesh.testing import NodeProcess
from tests.api.frames.node_thread import node_thread
from tests.client.proxy import CuttingProxy
from tests.client.test_client import with_client

HOUR_NS = 3600 * 10**9


async def filled(client: Client, name: str, records: int, partitions: int = 1, each: int = 10) -> StreamHandle:
    """A stream of numbered records, an hour apart, in batches of `each`."""
    stream = await client.create_stream(name, partitions=partitions)
    for first in range(0, records, each):
        rows = range(first, min(first + each, records))
        await stream.append_many(
            [b"%d" % row for row in rows],
            times_ns=[row * HOUR_NS for row in rows],
            partition=first // each % partitions,
        )
    return stream


@pytest.mark.parametrize(
    "start, first",
    [
        ("earliest", 0),
        (0, 0),
        (7, 7),
        ("1970-01-01T12:00:00Z", 12),
        ("1970-01-01T11:59:59.999999999Z", 12),
        (datetime(1970, 1, 1, 13), 13),
        (datetime(1970, 1, 1, 13, 0, 0, 1, UTC), 14),
        (str(15 * HOUR_NS), 15),
    ],
)
def test_a_consumer_begins_where_it_was_told(node: NodeProcess, start: str | int | datetime, first: int) -> None:
    async def work(client: Client) -> None:
        name = "begins"
        stream = client.stream(name) if name in await client.list_streams() else await filled(client, name, 25)
        async with stream.consumer(start, until_end=True) as found:
            assert [record.value async for record in found] == [b"%d" % row for row in range(first, 25)]

    with_client(node, work)


def test_latest_sees_what_comes_after_and_nothing_before(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await filled(client, "latest", 5)
        async with stream.consumer() as found:
            await stream.append(b"new")
            async for record in found:
                assert (record.offset, record.value) == (5, b"new")
                break

    with_client(node, work)


@pytest.mark.parametrize("start", ["yesterday", 99, -1])
def test_a_beginning_that_cannot_be_is_an_error(node: NodeProcess, start: str | int) -> None:
    async def work(client: Client) -> None:
        name = "badly"
        stream = client.stream(name) if name in await client.list_streams() else await filled(client, name, 3)
        async with contextlib.aclosing(stream.consumer(start).batches()) as found:
            with pytest.raises((errors.BadRequest, errors.OffsetOutOfRange)):
                await anext(found)

    with_client(node, work)


def test_a_beginning_behind_the_end_is_an_error_unless_some_partition_reaches_it(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await client.create_stream("uneven", partitions=2)
        await stream.append_many([b"a"] * 5, partition=1)
        for start, left in ((3, 2), (5, 0)):
            async with stream.consumer(start, until_end=True) as consumer:
                assert len([record async for record in consumer]) == left
        with pytest.raises(errors.OffsetOutOfRange, match=r"\[0, 5\)"):
            await stream.consumer(6, until_end=True).open()

    with_client(node, work)


def test_all_partitions_are_followed_each_in_its_order(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await filled(client, "parts", 300, partitions=3)
        seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
        async with stream.consumer("earliest", until_end=True, verify=True) as found:
            async for batch in found.batches():
                seen[batch.partition] += [record.offset for record in batch.records()]
            assert found.positions == {0: 100, 1: 100, 2: 100}
        assert seen == {number: list(range(100)) for number in range(3)}
        async with stream.consumer("earliest", partitions=[1], until_end=True) as found:
            assert {batch.partition async for batch in found.batches()} == {1}

    with_client(node, work)


def test_batches_are_columns_and_arrow(node: NodeProcess) -> None:
    pytest.importorskip("pyarrow")

    async def work(client: Client) -> None:
        stream = await filled(client, "arrow", 20)
        async with stream.consumer(13, until_end=True) as found:
            batches = [batch async for batch in found.batches()]
        assert [len(batch) for batch in batches] == [7]
        table = batches[0].arrow()
        assert table.num_rows == 7
        assert table.column("offset").to_pylist() == list(range(13, 20))
        assert batches[0].columns.count == 10
        assert (batches[0].base_offset, batches[0].end_offset, batches[0].skip) == (13, 20, 3)

    with_client(node, work)


def test_a_consumer_goes_on_through_cut_connections(node: NodeProcess) -> None:
    async def run() -> None:
        port = int(node.url.rpartition(":")[2])
        async with (
            flowmesh.connect(node.url, token=node.token) as writer,
            CuttingProxy(port) as proxy,
            flowmesh.connect(proxy.url, token=node.token) as client,
        ):
            stream = await writer.create_stream("cutting")
            values: list[bytes | None] = []
            async with client.stream("cutting").consumer("earliest") as found:

                async def take() -> None:
                    async for batch in found.batches():
                        values.extend(batch.values())
                        if len(values) >= 600:
                            return

                taking = asyncio.create_task(take())
                for row in range(0, 600, 20):
                    await stream.append_many([b"%d" % number for number in range(row, row + 20)])
                    if row % 60 == 0:
                        proxy.cut()
                await asyncio.wait_for(taking, 30)
        assert values == [b"%d" % row for row in range(600)]
        assert proxy.cuts > 5

    asyncio.run(run())


def test_a_slow_user_stalls_the_subscription_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways: a window that is full, and a buffer that is full. Then reads go on where the pushes ended."""
    monkeypatch.setattr(consumer, "BUFFER_BYTES", 100_000)

    async def run(url: str, token: str) -> None:
        async with flowmesh.connect(url, token=token) as client:
            stream = await client.create_stream("sluggish")
            for row in range(60):
                await stream.append_many([b"%d-%d-%s" % (row, number, bytes(1000)) for number in range(10)])
            for window in (30, 100_000):
                offsets = []
                async with stream.consumer("earliest", window=window) as found:
                    async for batch in found.batches():
                        offsets += [record.offset for record in batch.records()]
                        assert found._ready_bytes < 3_000_000
                        if len(offsets) in (10, 100):
                            await asyncio.sleep(0.5)
                        if len(offsets) >= 600:
                            break
                assert offsets == list(range(600))

    with node_thread(tmp_path / "data") as node:
        node.running.frames.context.stall_ms = 100
        asyncio.run(run(node.url, node.token))


def test_a_deleted_stream_and_a_closed_consumer_end_the_iteration(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await filled(client, "ending", 3)
        found = stream.consumer("earliest")
        await found.open()
        assert [record.value for record in (await anext(found.batches())).records()] == [b"0", b"1", b"2"]
        await stream.delete()
        with pytest.raises(errors.NotFound):
            await anext(found.batches())
        await found.close()
        with pytest.raises((errors.Closed, errors.NotFound)):
            await anext(found.batches())

    with_client(node, work)


def test_a_consumer_that_cannot_begin_and_one_that_was_forgotten_leave_no_connection(tmp_path: Path) -> None:
    with node_thread(tmp_path / "data") as node:

        async def left(count: int) -> None:
            while node.on_loop(lambda: len(node.running.frames.context.connections)) != count:
                await asyncio.sleep(0.01)

        async def run() -> None:
            async with flowmesh.connect(node.url, token=node.token) as client:
                stream = await client.create_stream("leaving")
                with pytest.raises(errors.BadRequest):
                    async with stream.consumer("yesterday"):
                        raise AssertionError("it began")
                await asyncio.wait_for(left(1), 10)
                forgotten = stream.consumer()
                await forgotten.open()
                await asyncio.wait_for(left(2), 10)
            await asyncio.wait_for(left(0), 10)
            with pytest.raises(errors.Closed):
                await anext(forgotten.batches())

        asyncio.run(run())
