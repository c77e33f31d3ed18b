"""Metrics of a node on a simulated disk, on which a bit of everything has happened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from flowmesh.catalog.model import StreamSettings
from flowmesh.groups.commands import CommitOffsets
from flowmesh.host.writer import WriterThread
from flowmesh.observability.metrics import Metrics
from flowmesh.observability.node_reader import NodeReader
from flowmesh.sim.clock import SimClock
from flowmesh.sim.disk import SimDisk
from tests.node.worlds import World, commit_to, record

ORDERS = ("default", "shop", "orders")


@contextmanager
def reading(world: World, clock: SimClock) -> Iterator[NodeReader]:
    writer = WriterThread(clock)
    loop = asyncio.new_event_loop()
    try:
        yield NodeReader(world.node, writer, clock, loop)
    finally:
        loop.close()
        writer.close()


def torn_world() -> World:
    """A node that recovered from a power cut in the middle of an append, so that it has something to note."""
    world = World(SimDisk(1))
    world.open()
    world.create(ORDERS, StreamSettings())
    commit_to(world.node, ORDERS, record(b"one"))
    path = next(path for path in world.disk.files() if "/streams/" in path and path.endswith(".log"))
    file = world.disk.open(path, write=True)
    file.write(file.size(), [b"the beginning of an entry"])
    after = world.after(world.disk.crash("keep_all"))
    after.open()
    assert after.node.stream(ORDERS).partition(0).appender.notes
    return after


@contextmanager
def busy_metrics() -> Iterator[Metrics]:
    world = torn_world()
    clock = SimClock()
    with reading(world, clock) as reader:
        commit_to(world.node, ORDERS, *(record(b"x") for _ in range(10)))
        world.node.groups.execute(CommitOffsets(world.node.stream(ORDERS).stream.id, "g", {0: 1}, "consumer", 10**9))
        metrics = Metrics(reader)
        metrics.connections("http", 1)
        metrics.operation("stream.append", "http", 0.002, "OK")
        metrics.denials["FORBIDDEN"] = 1
        yield metrics
