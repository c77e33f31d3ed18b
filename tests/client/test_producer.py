"""Producers: batching, keys, back-pressure, refusals, and each record once through cut connections."""

import asyncio
from collections import Counter

import pytest

import flowmesh
from flowmesh.base import errors
from flowmesh.client import Client
from flowmesh.operations.messages import PartitionAppend
from flowmesh.streams.partitioner import partition_of
from flowmesh.testing import NodeProcess
from tests.client.proxy import CuttingProxy
from tests.client.test_client import with_client


async def values_of(client: Client, name: str) -> dict[int, list[bytes | None]]:
    """Every value of a stream, by partition, in order."""
    found: dict[int, list[bytes | None]] = {}
    async with client.stream(name).consumer("earliest", until_end=True) as consumer:
        async for batch in consumer.batches():
            found.setdefault(batch.partition, []).extend(batch.values())
    return found


def test_many_records_become_few_batches_in_order(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await client.create_stream("batching")
        values = [b"%d" % row for row in range(20_000)]
        async with await stream.producer(linger_ms=50, batch_bytes=100_000) as producer:
            receipts = {await producer.send(value) for value in values}
        assert len(receipts) < 20
        ends = sorted([(await receipt).end_offset for receipt in receipts])
        assert ends[-1] == 20_000
        assert await values_of(client, "batching") == {0: values}

    with_client(node, work)


def test_linger_sends_a_batch_that_is_not_full(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        producer = await (await client.create_stream("linger")).producer(linger_ms=1)
        placed = await (await producer.send(b"alone"))
        assert (placed.base_offset, placed.end_offset) == (0, 1)
        await producer.close()

    with_client(node, work)


def test_keys_choose_partitions_as_the_node_does(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await client.create_stream("keyed", partitions=4)
        keys = [b"key-%d" % row for row in range(200)]
        async with await stream.producer() as producer:
            for key in keys:
                await producer.send(key, key=key, headers=[(b"h", key)], time_ns=5)
            await producer.send(b"explicit", partition=3)
        found = await values_of(client, "keyed")
        assert b"explicit" in found[3]
        for key in keys:
            assert key in found[partition_of(key, 4)]
            assert (await stream.append(key, key=key)).partition == partition_of(key, 4)

    with_client(node, work)


def test_send_many_cuts_into_batches_and_takes_turns(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await client.create_stream("bulk", partitions=3)
        values: list[bytes | None] = [b"%06d" % row for row in range(50_000)]
        async with await stream.producer(batch_bytes=50_000) as producer:
            await producer.send_many([*values, None])
        found = await values_of(client, "bulk")
        assert len(found) == 3
        assert Counter(value for each in found.values() for value in each) == Counter([*values, None])
        for each in found.values():
            assert sorted(value for value in each if value is not None) == [
                value for value in each if value is not None
            ]

    with_client(node, work)


def test_what_is_held_is_bounded(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await client.create_stream("pressed")
        producer = await stream.producer(buffer_bytes=200_000, batch_bytes=50_000)
        for _ in range(100):
            await producer.send(bytes(10_000))
            assert producer._held_bytes <= 220_000
        await producer.close()
        with pytest.raises(errors.Closed):
            await producer.send(b"late")

    with_client(node, work)


@pytest.mark.parametrize(
    "options", [{"batch_bytes": 0}, {"batch_bytes": 2**30}, {"max_in_flight": 0}, {"max_in_flight": 6}]
)
def test_options_that_cannot_be_are_refused(node: NodeProcess, options: dict[str, int]) -> None:
    async def work(client: Client) -> None:
        if "options" not in await client.list_streams():
            await client.create_stream("options")
        with pytest.raises(errors.BadRequest):
            await client.stream("options").producer(**options)
        producer = await client.stream("options").producer()
        with pytest.raises(errors.TooLarge):
            await producer.send(bytes(17 * 1024 * 1024))
        with pytest.raises(errors.BadRequest):
            await producer.send(b"", partition=5)
        await producer.close()

    with_client(node, work)


def test_a_batch_that_is_refused_fails_its_receipt_the_flush_and_what_follows(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await client.create_stream("vanishing")
        producer = await stream.producer(linger_ms=1)
        await stream.delete()
        receipt = await producer.send(b"lost")
        with pytest.raises(errors.NotFound):
            await receipt
        with pytest.raises(errors.NotFound):
            await producer.flush()
        with pytest.raises(errors.NotFound):
            await producer.send(b"more")
        with pytest.raises(errors.NotFound):
            await producer.close()

    with_client(node, work)


@pytest.mark.parametrize("partitions", [1, 3])
def test_each_record_is_stored_once_through_cut_connections(node: NodeProcess, partitions: int) -> None:
    """The connection breaks again and again, in the middle of batches and before their answers."""

    async def run() -> None:
        name = f"cut-{partitions}"
        port = int(node.url.rpartition(":")[2])
        values: list[bytes | None] = [b"%05d" % row for row in range(4000)]
        async with CuttingProxy(port) as proxy, flowmesh.connect(proxy.url, token=node.token) as client:
            stream = await client.create_stream(name, partitions=partitions)
            producer = await stream.producer(batch_bytes=1000, linger_ms=1)

            async def cut() -> None:
                for turn in range(25):
                    await asyncio.sleep(0.01 + 0.003 * (turn % 5))
                    proxy.cut()

            cutting = asyncio.create_task(cut())
            for first in range(0, len(values), 40):
                await producer.send_many(values[first : first + 40])
                await asyncio.sleep(0.002)
            await cutting
            await producer.close()
            assert proxy.cuts >= 25
        async with flowmesh.connect(node.url, token=node.token) as client:
            found = await values_of(client, name)
            stored = [value for each in found.values() for value in each]
            assert Counter(stored) == Counter(values)
            if partitions == 1:
                assert stored == values

    asyncio.run(run())


def test_a_node_that_stays_away_fails_the_producer_after_its_time(node: NodeProcess) -> None:
    async def run() -> None:
        port = int(node.url.rpartition(":")[2])
        async with CuttingProxy(port) as proxy, flowmesh.connect(proxy.url, token=node.token) as client:
            stream = await client.create_stream("away")
            producer = await stream.producer(linger_ms=1, delivery_timeout_s=0.5)
            await (await producer.send(b"first"))
            proxy.refusing = True
            proxy.cut()
            receipt = await producer.send(b"second")
            with pytest.raises(errors.TimedOut, match="unknown"):
                await receipt
            with pytest.raises(errors.TimedOut):
                await producer.close()

    asyncio.run(run())


def test_without_a_producer_id_an_unknown_outcome_is_told_and_not_tried_again(node: NodeProcess) -> None:
    async def run() -> None:
        port = int(node.url.rpartition(":")[2])
        async with CuttingProxy(port) as proxy, flowmesh.connect(proxy.url, token=node.token) as client:
            stream = await client.create_stream("plain")
            producer = await stream.producer(linger_ms=0, idempotent=False)
            await (await producer.send(b"first"))
            receipt = await producer.send(bytes(5_000_000))
            await asyncio.sleep(0)
            proxy.cut()
            with pytest.raises(errors.TimedOut):
                await receipt
            with pytest.raises(errors.TimedOut):
                await producer.flush()
            await (await producer.send(b"third"))
            await producer.close()

    asyncio.run(run())


def test_a_program_that_ends_does_not_wait_for_a_node_that_is_gone(node: NodeProcess) -> None:
    """The end of a loop cancels everything on it, what delivers the batches as well as whoever waits for them."""
    receipts: list[asyncio.Future[PartitionAppend]] = []

    async def produce(proxy: CuttingProxy) -> None:
        async with flowmesh.connect(proxy.url, token=node.token) as client:
            stream = await client.create_stream("left-behind")
            async with await stream.producer(linger_ms=0) as producer:
                await (await producer.send(b"first"))
                proxy.refusing = True
                proxy.cut()
                receipts.append(await producer.send(b"second"))
                await asyncio.sleep(1000)

    async def run() -> asyncio.Task[None]:
        async with CuttingProxy(int(node.url.rpartition(":")[2])) as proxy:
            producing = asyncio.create_task(produce(proxy))
            while not receipts:
                await asyncio.sleep(0.01)
            return producing

    producing = asyncio.run(run())
    assert producing.done()
    assert isinstance(receipts[0].exception(), errors.Closed)
