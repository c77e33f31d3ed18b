"""kill -9 of a real node, again and again, under a producer: nothing acknowledged is lost, nothing is stored twice.

The expected values are kept here, outside of the node.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import flowmesh
from flowmesh.operations.messages import PartitionAppend
from flowmesh.testing import NodeProcess

STREAM = "survivor"
GROUP = 50


class Ledger:
    """What was sent, and which of it was acknowledged, in groups with one value pattern each."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.receipts: list[tuple[int, asyncio.Future[PartitionAppend]]] = []

    def acknowledged(self) -> dict[int, PartitionAppend]:
        done = [(row, receipt) for row, receipt in self.receipts if receipt.done() and receipt.exception() is None]
        return {row: receipt.result() for row, receipt in done}


async def produce(url: str, token: str, ledger: Ledger, stop: asyncio.Event) -> None:
    async with flowmesh.connect(url, token=token) as client:
        stream = client.stream(STREAM)
        async with await stream.producer(batch_bytes=4000, linger_ms=1, delivery_timeout_s=100) as producer:
            while not stop.is_set():
                for _ in range(GROUP):
                    row = len(ledger.sent)
                    ledger.sent.append(b"%08d" % row)
                    ledger.receipts.append((row, await producer.send(ledger.sent[row], partition=row // 1000 % 2)))
                await asyncio.sleep(0.001)


async def stored(url: str, token: str) -> dict[int, list[tuple[int, bytes]]]:
    found: dict[int, list[tuple[int, bytes]]] = {0: [], 1: []}
    async with (
        flowmesh.connect(url, token=token) as client,
        client.stream(STREAM).consumer("earliest", until_end=True, verify=True) as consumer,
    ):
        async for batch in consumer.batches():
            found[batch.partition] += [(record.offset, record.value or b"") for record in batch.records()]
    return found


async def cycles(node: NodeProcess, count: int, seed: int) -> None:
    chance = random.Random(seed)
    async with flowmesh.connect(node.url, token=node.token) as client:
        await client.create_stream(STREAM, partitions=2, segment_bytes=256 * 1024)
    ledger, stop = Ledger(), asyncio.Event()
    producing = asyncio.create_task(produce(node.url, node.token, ledger, stop))
    for cycle in range(count):
        await asyncio.sleep(chance.uniform(0.05, 0.4))
        assert not producing.done(), producing.exception()
        before = ledger.acknowledged()
        node.kill()
        await asyncio.to_thread(node.start)
        check(before, ledger.sent, await stored(node.url, node.token), f"cycle {cycle}, seed {seed}")
    stop.set()
    await producing
    acknowledged = ledger.acknowledged()
    assert len(acknowledged) == len(ledger.sent), "the producer ended, so all it sent was acknowledged"
    found = await stored(node.url, node.token)
    check(acknowledged, ledger.sent, found, f"the end, seed {seed}")
    assert sum(map(len, found.values())) == len(ledger.sent)


def check(
    acknowledged: dict[int, PartitionAppend], sent: list[bytes], found: dict[int, list[tuple[int, bytes]]], when: str
) -> None:
    places: dict[bytes, tuple[int, int]] = {}
    for partition, records in found.items():
        values = [value for _, value in records]
        assert values == sorted(set(values)), f"{when}: partition {partition} has repetitions or is out of order"
        assert [offset for offset, _ in records] == list(range(len(records)))
        places |= {value: (partition, offset) for offset, value in records}
    for row, placed in acknowledged.items():
        assert sent[row] in places, f"{when}: record {row} was acknowledged and is lost"
        partition, offset = places[sent[row]]
        assert partition == placed.partition
        assert placed.base_offset <= offset < placed.end_offset, f"{when}: record {row} is not where it was said to be"


def test_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        asyncio.run(cycles(node, 4, 1))


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("round_number", range(4))
def test_many_kills_lose_nothing_and_double_nothing(tmp_path: Path, round_number: int) -> None:
    with NodeProcess(tmp_path / "data") as node:
        asyncio.run(cycles(node, 40, random.randrange(2**32)))


def test_an_orderly_restart_is_nothing_but_a_pause(tmp_path: Path) -> None:
    async def run(node: NodeProcess) -> None:
        async with flowmesh.connect(node.url, token=node.token) as client:
            stream = await client.create_stream(STREAM)
            async with await stream.producer(linger_ms=1) as producer:
                await (await producer.send(b"before"))
                await asyncio.to_thread(node.restart)
                await (await producer.send(b"after"))
            async with stream.consumer("earliest", until_end=True) as consumer:
                assert [record.value async for record in consumer] == [b"before", b"after"]

    with NodeProcess(tmp_path / "data") as node:
        asyncio.run(run(node))
