"""Load through the SDK, as a program of its users would be written, and what it is measured by. In the load process."""

from __future__ import annotations

import asyncio
import os
import time
from functools import lru_cache

from benchmarks.harness import timed
from flowmesh.assemble import read_local_log
from flowmesh.base.limits import MIB
from flowmesh.client import connect
from flowmesh.format import columns

VALUE_BYTES = 100
_RECORDS_PER_BATCH = MIB // (VALUE_BYTES + 16)
"""What the producer puts into a batch of such records by default."""


@lru_cache(maxsize=2)
def _values(count: int) -> list[bytes]:
    data = os.urandom(count * VALUE_BYTES)
    return [data[place : place + VALUE_BYTES] for place in range(0, len(data), VALUE_BYTES)]


def produce(url: str, token: str, stream: str, count: int) -> float:
    """Seconds from the first record to the last acknowledgement."""
    return asyncio.run(_produce(url, token, stream, _values(count)))


async def _produce(url: str, token: str, stream: str, values: list[bytes]) -> float:
    async with connect(url, token=token) as client, await client.stream(stream).producer() as producer:
        await producer.send_many(values[:1])
        await producer.flush()
        began = time.perf_counter()
        await producer.send_many(values)
        await producer.flush()
        return time.perf_counter() - began


def encode(count: int) -> float:
    """The same batches, and nothing else."""
    values = _values(count)
    steps = range(0, count, _RECORDS_PER_BATCH)
    return timed(lambda: [columns.encode(values[first : first + _RECORDS_PER_BATCH]) for first in steps])


def consume(url: str, token: str, stream: str) -> float:
    """Seconds to have all of a stream as columns."""
    return asyncio.run(_consume(url, token, stream))


async def _consume(url: str, token: str, stream: str) -> float:
    async with connect(url, token=token) as client:
        consumer = client.stream(stream).consumer(start="earliest", until_end=True)
        async with consumer:
            began = time.perf_counter()
            async for batch in consumer.batches():
                _ = batch.columns
            return time.perf_counter() - began


def read_log(directory: str) -> float:
    """Seconds to have the same columns from the files, without a node."""
    view = read_local_log(directory)
    return timed(lambda: [columns.decode(block.batch) for block in view.blocks()] and None)
