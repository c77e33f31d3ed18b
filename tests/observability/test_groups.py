"""What is counted of groups: lag, holds, and a failed log; bounded, however many there are."""

from __future__ import annotations

import pytest

from flowmesh.base.errors import StorageFailed
from flowmesh.catalog.model import StreamSettings
from flowmesh.groups.commands import CommitOffsets
from flowmesh.node.node import Node
from flowmesh.observability import group_reader
from flowmesh.observability.metrics import Metrics
from flowmesh.sim.clock import SimClock
from flowmesh.sim.disk import SimDisk
from flowmesh.sim.entropy import SimEntropy
from tests.node.worlds import DATA, World, commit_to, record
from tests.observability.nodes import ORDERS, reading
from tests.observability.test_metrics import samples

SECOND_NS = 1_000_000_000


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def world(clock: SimClock) -> World:
    made = World(SimDisk(5))
    made.node = Node.open(made.disk, clock, SimEntropy(1), DATA, made.kept_tokens.append, 0)
    made.create(ORDERS, StreamSettings(partitions=2))
    commit_to(made.node, ORDERS, *(record(b"x") for _ in range(10)))
    return made


def commit(world: World, name: str, offsets: dict[int, int], hold_s: int | None = None) -> None:
    hold_ns = None if hold_s is None else hold_s * SECOND_NS
    world.node.groups.execute(CommitOffsets(world.node.stream(ORDERS).stream.id, name, offsets, "consumer", hold_ns))


def shown(world: World, clock: SimClock, metric: str) -> dict[str, float]:
    """By the name of the group."""
    with reading(world, clock) as reader:
        found = samples(Metrics(reader))
    return {labels[0] if labels else "": value for (name, labels), value in found.items() if name == metric}


def test_lag_is_what_was_not_read_of_the_partitions_that_were_committed(world: World, clock: SimClock) -> None:
    commit(world, "a", {0: 4})
    commit(world, "b", {0: 10, 1: 0})
    assert shown(world, clock, "flowmesh_group_lag_records") == {"a": 6, "b": 0}
    commit_to(world.node, ORDERS, record(b"x"))
    assert shown(world, clock, "flowmesh_group_lag_records") == {"a": 7, "b": 1}
    assert shown(world, clock, "flowmesh_node_resources")["group"] == 2


def test_a_hold_runs_down_to_nothing(world: World, clock: SimClock) -> None:
    commit(world, "held", {0: 4}, hold_s=10)
    commit(world, "free", {0: 4})
    clock.advance(4 * SECOND_NS)
    assert shown(world, clock, "flowmesh_group_hold_seconds_left") == {"held": 6}
    clock.advance(60 * SECOND_NS)
    assert shown(world, clock, "flowmesh_group_hold_seconds_left") == {"held": 0}


def test_groups_past_the_limit_are_one(world: World, clock: SimClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_reader, "GROUP_SERIES_MAX", 1)
    for name, hold_s in (("a", 90), ("b", 60), ("c", 30), ("d", None)):
        commit(world, name, {0: 4}, hold_s)
    assert shown(world, clock, "flowmesh_group_lag_records") == {"a": 6, "(others)": 18}
    assert shown(world, clock, "flowmesh_group_hold_seconds_left") == {"a": 90, "(others)": 30}


def test_a_failed_log_is_told(world: World, clock: SimClock) -> None:
    assert shown(world, clock, "flowmesh_groups_failed") == {"": 0}
    world.disk.fail("sync", path="*/metadata/groups/*")
    with pytest.raises(StorageFailed):
        commit(world, "a", {0: 4})
    assert shown(world, clock, "flowmesh_groups_failed") == {"": 1}
