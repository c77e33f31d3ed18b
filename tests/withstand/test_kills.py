"""kill -9 of a node under load on both wires: what it acknowledged is where it said, what is numbered is there once."""

from __future__ import annotations

import asyncio
import math
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import flowmesh
from flowmesh.base.limits import KIB
from flowmesh.testing import NodeProcess
from flowmesh.testing.node_process import NodeFailed
from tests.withstand.ledger import Ledger
from tests.withstand.load import Load

CYCLES = 10
SOAK_CYCLES = 200
SOAK_SECONDS = int(os.environ.get("NODE_KILL_SOAK_SECONDS", "600"))
PARTITIONS = 3
READ_ANEW_EVERY = 25
DURABILITIES = ("batch", "always")


class KilledNode:
    """A node over many lives, and the load on its streams, one for each durability that promises not to lose."""

    def __init__(self, node: NodeProcess, seed: int) -> None:
        self.node = node
        self.seed = seed
        self.chance = random.Random(seed)
        self.cycles = 0
        self.loads = [
            Load(node.url, node.http_url, node.token, f"survives-{durability}", PARTITIONS, seed * 10 + number)
            for number, durability in enumerate(DURABILITIES)
        ]

    async def run(self, cycles: int, deadline: float) -> None:
        async with flowmesh.connect(self.node.url, token=self.node.token) as client:
            for load, durability in zip(self.loads, DURABILITIES, strict=True):
                await client.create_stream(
                    load.stream, partitions=PARTITIONS, segment_bytes=64 * KIB, durability=durability
                )
        for load in self.loads:
            load.start()
        while self.cycles < cycles and time.monotonic() < deadline:
            await asyncio.sleep(self.chance.uniform(0.02, 0.5))
            await self._die_and_return()
            self.cycles += 1
            await self._check(f"cycle {self.cycles}, seed {self.seed}")
            if self.cycles % READ_ANEW_EVERY == 0:
                await self._check_all_anew(f"cycle {self.cycles}, read anew, seed {self.seed}")
        for load in self.loads:
            await load.stop()
            assert not [shipment for shipment in load.ledger.unknown() if shipment.numbered]
        await self._check(f"the end, seed {self.seed}")
        await self._check_all_anew(f"the end, read anew, seed {self.seed}")

    async def _die_and_return(self) -> None:
        await asyncio.to_thread(self.node.kill)
        if self.chance.random() < 0.3:
            await self._die_while_starting(self.chance.uniform(0, 1.2))
        if not self.node.running:
            await asyncio.to_thread(self.node.start)

    async def _die_while_starting(self, after_s: float) -> None:
        starting = asyncio.create_task(asyncio.to_thread(self.node.start))
        await asyncio.sleep(after_s)
        while not starting.done() and not self.node.running:
            await asyncio.sleep(0.001)
        if starting.done():
            await starting
            await asyncio.to_thread(self.node.kill)
            return
        with suppress(AssertionError, ProcessLookupError):
            os.kill(self.node.pid, signal.SIGKILL)
        with suppress(NodeFailed):
            await starting
            await asyncio.to_thread(self.node.kill)

    async def _check(self, when: str) -> None:
        for load in self.loads:
            if not load.stopping.is_set():
                load.require_alive()
            said = load.ledger.said()
            load.ledger.take(await self._read(load, load.ledger.ends()), when)
            load.ledger.check(said, when)

    async def _check_all_anew(self, when: str) -> None:
        """What was served once is served again, the same at the same offset."""
        for load in self.loads:
            again = Ledger(PARTITIONS)
            again.take(await self._read(load, [0] * PARTITIONS), when)
            for before, now in zip(load.ledger.found, again.found, strict=True):
                assert now[: len(before)] == before, f"{when}: history has changed"
            load.ledger.require_nothing_else()

    async def _read(self, load: Load, starts: list[int]) -> dict[int, list[tuple[int, bytes]]]:
        """Every record from there to the end, each hash computed again."""
        found: dict[int, list[tuple[int, bytes]]] = {}
        async with flowmesh.connect(self.node.url, token=self.node.token) as client:
            for partition, start in enumerate(starts):
                stream = client.stream(load.stream)
                async with stream.consumer(start, partitions=[partition], until_end=True, verify=True) as consumer:
                    found[partition] = [(record.offset, record.value or b"") async for record in consumer]
        return found

    def tell(self, capfd: pytest.CaptureFixture[str]) -> None:
        acknowledged = sum(load.ledger.acknowledged for load in self.loads)
        unknown = sum(len(load.ledger.unknown()) for load in self.loads)
        with capfd.disabled():
            sys.stderr.write(
                f"\nkill -9 of a node, seed {self.seed}: N = {self.cycles} kills, {acknowledged} records acknowledged"
                f" and found where they were said to be, {unknown} requests of unknown outcome; rate of loss below"
                f" 3/N = {3 / self.cycles:.4f}\n"
            )


def kill_over_and_over(
    directory: Path, seed: int, cycles: int, seconds: float, capfd: pytest.CaptureFixture[str]
) -> KilledNode:
    with NodeProcess(directory / "data") as node:
        killed = KilledNode(node, seed)
        asyncio.run(killed.run(cycles, time.monotonic() + seconds))
        killed.tell(capfd)
        assert "Traceback" not in node.log_file.read_text()
    return killed


@pytest.mark.timeout(900)
def test_what_a_killed_node_acknowledged_is_where_it_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("NODE_KILL_SEED", "20261119"))
    killed = kill_over_and_over(tmp_path, seed, CYCLES, math.inf, capfd)
    assert killed.cycles == CYCLES
    for load in killed.loads:
        assert load.ledger.acknowledged > 0


@pytest.mark.soak
@pytest.mark.timeout(SOAK_SECONDS + 600)
def test_two_hundred_kills_lose_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("NODE_KILL_SEED", str(time.time_ns() % 2**32)))
    with capfd.disabled():
        sys.stderr.write(f"\nNODE_KILL_SEED={seed}\n")
    kill_over_and_over(tmp_path, seed, SOAK_CYCLES, SOAK_SECONDS, capfd)
