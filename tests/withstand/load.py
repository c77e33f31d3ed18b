"""Load for a node that may die at any moment: producers of the SDK and posts over HTTP, written into a ledger."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from typing import Any

import httpx
import msgspec

import flowmesh
from flowmesh.operations.messages import PartitionAppend
from flowmesh.streams.partitioner import partition_of
from tests.withstand.ledger import Ledger, Shipment

PATIENCE_S = 900
"""Of a producer whose node is killed again before the pauses between its tries are over."""
NDJSON = "application/x-ndjson"
JSON = "application/json"
_PAUSE_S = 0.002
_PRODUCER_PAUSE_S = 0.015
_RETRY_S = 0.05
_encode = msgspec.json.Encoder().encode
_numbers = itertools.count()


class Load:
    """On one stream of the default namespace. `stop` lets every sender come to its end in order."""

    def __init__(self, url: str, http_url: str, token: str, stream: str, partitions: int, seed: int) -> None:
        self.ledger = Ledger(partitions)
        self.stream = stream
        self.partitions = partitions
        self.stopping = asyncio.Event()
        self._url, self._token, self._seed = url, token, seed
        self._records_url = f"{http_url}/v1/default/default/streams/{stream}/records"
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        senders = [self._produce, self._produce, self._post_records, self._post_lines, self._post_until_stored]
        for number, sender in enumerate(senders):
            self._tasks.append(asyncio.create_task(sender(random.Random(self._seed * 100 + number))))

    def require_alive(self) -> None:
        for task in self._tasks:
            assert not task.done(), task.exception()

    async def stop(self) -> None:
        self.stopping.set()
        await asyncio.gather(*self._tasks)

    # --- producers ----------------------------------------------------------------------------------------------

    async def _produce(self, chance: random.Random) -> None:
        """Batches of whatever size comes about, to every partition, numbered so that none is stored twice."""
        batches: dict[asyncio.Future[PartitionAppend], Shipment] = {}
        async with (
            flowmesh.connect(self._url, token=self._token) as client,
            await client.stream(self.stream).producer(
                batch_bytes=3000, linger_ms=1, delivery_timeout_s=PATIENCE_S
            ) as producer,
        ):
            while not self.stopping.is_set():
                for _ in range(chance.randint(1, 60)):
                    partition, value = chance.randrange(self.partitions), fresh(chance)
                    receipt = await producer.send(value, partition=partition)
                    if receipt in batches:
                        batches[receipt].values.append(value)
                    else:
                        batches[receipt] = self.ledger.send(partition, [value], numbered=True)
                        receipt.add_done_callback(lambda done: _settle(batches.pop(done), done))
                await asyncio.sleep(_PRODUCER_PAUSE_S)

    # --- posts --------------------------------------------------------------------------------------------------

    async def _post_records(self, chance: random.Random) -> None:
        """One record after the other, by key. What got no answer is left as it is."""
        async with self._http() as http:
            while not self.stopping.is_set():
                key, value = f"k{chance.randrange(100)}", fresh(chance)
                shipment = self.ledger.send(partition_of(key.encode(), self.partitions), [value])
                body = _encode({"value": value.decode(), "key": key})
                await self._once(http, [shipment], body, JSON, {})

    async def _post_lines(self, chance: random.Random) -> None:
        """Many records in one request, which goes to several partitions."""
        async with self._http() as http:
            while not self.stopping.is_set():
                rows = [(f"k{chance.randrange(100)}", fresh(chance)) for _ in range(chance.randint(1, 40))]
                shares: dict[int, list[bytes]] = {}
                for key, value in rows:
                    shares.setdefault(partition_of(key.encode(), self.partitions), []).append(value)
                shipments = [self.ledger.send(partition, values) for partition, values in shares.items()]
                body = b"\n".join(_encode({"value": value.decode(), "key": key}) for key, value in rows)
                await self._once(http, shipments, body, NDJSON, {})

    async def _post_until_stored(self, chance: random.Random) -> None:
        """Numbered requests, each repeated until it is answered: stored once, like those of the SDK."""
        producer_id, sequence = chance.randrange(1, 2**62), 0
        async with self._http() as http:
            while not self.stopping.is_set():
                values = [fresh(chance) for _ in range(chance.randint(1, 20))]
                shipment = self.ledger.send(0, values, numbered=True)
                body = b"\n".join(_encode({"value": value.decode()}) for value in values)
                query = {"partition": 0, "producer_id": producer_id, "first_sequence": sequence}
                while not await self._once(http, [shipment], body, NDJSON, query):
                    pass
                sequence += len(values)

    def _http(self) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self._token}"}
        return httpx.AsyncClient(headers=headers, timeout=60, trust_env=False)

    async def _once(
        self, http: httpx.AsyncClient, shipments: Sequence[Shipment], body: bytes, media: str, query: dict[str, Any]
    ) -> bool:
        """Whether there was an answer. Only that of success is one: a node that is killed refuses nothing."""
        try:
            answer = await http.post(
                self._records_url, content=body, headers={"content-type": media}, params=query or None
            )
        except httpx.ConnectError:
            for shipment in shipments:
                shipment.impossible = not shipment.numbered  # an earlier try of the same may have come through
            await asyncio.sleep(_RETRY_S)
            return False
        except httpx.TransportError:
            await asyncio.sleep(_RETRY_S)
            return False
        assert answer.status_code == 200, answer.text
        said = {append["partition"]: append for append in answer.json()["appends"]}
        assert said.keys() == {shipment.partition for shipment in shipments}
        for shipment in shipments:
            place = said[shipment.partition]
            assert place["end_offset"] - place["base_offset"] == len(shipment.values)
            shipment.base_offset = place["base_offset"]
        await asyncio.sleep(_PAUSE_S)
        return True


def fresh(chance: random.Random) -> bytes:
    """A value that was never there before; mostly small, now and then some kilobytes."""
    return b"%d:" % next(_numbers) + b"x" * (chance.randrange(4000) if chance.random() < 0.02 else chance.randrange(80))


def _settle(shipment: Shipment, receipt: asyncio.Future[PartitionAppend]) -> None:
    if receipt.exception() is not None:  # the producer tells of it, and ends its task
        return
    placed = receipt.result()
    assert placed.partition == shipment.partition
    assert placed.end_offset - placed.base_offset == len(shipment.values)
    shipment.base_offset = placed.base_offset
