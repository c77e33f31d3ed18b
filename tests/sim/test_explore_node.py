"""The node keeps its promises wherever it is interrupted: what administrators and producers were told stays true."""

import sys
import time

import pytest
from click.testing import CliRunner

from flowmesh.sim.disk import SimDisk
from flowmesh.sim.explore import Exploration, Plan, explore
from flowmesh.sim.main import main
from flowmesh.sim.node_checker import KnownNode
from flowmesh.sim.node_workloads import NODE_WORKLOADS, ORDERS
from flowmesh.sim.node_world import NodeWorld

LEAN = Plan(stride=13)
SOAK_NS = 90 * 10**9
"""What one workload may take of a soak; the seeds it got through are printed."""


def told(result: Exploration) -> str:
    return "\n".join(violation.describe() for violation in result.violations)


def undisturbed(name: str, seed: int) -> NodeWorld:
    world = NodeWorld(SimDisk(seed), seed, KnownNode())
    NODE_WORKLOADS[name].play(world)
    return world


@pytest.mark.parametrize("name", NODE_WORKLOADS)
def test_no_crash_and_no_fault_breaks_a_promise(name: str) -> None:
    result = explore(name, 3, LEAN)
    assert not told(result)
    assert result.operations > 100
    assert result.crash_points > result.operations // LEAN.stride
    assert result.fault_points > 30
    assert result.recoveries > 2 * result.crash_points


@pytest.mark.parametrize("seed", range(200, 206))
def test_days_of_any_order_break_no_promise(seed: int) -> None:
    result = explore("node-mixed", seed, Plan(stride=29))
    assert not told(result)


@pytest.mark.parametrize("name", NODE_WORKLOADS)
def test_an_undisturbed_day_ends_as_it_should(name: str) -> None:
    world = undisturbed(name, 5)
    world.restart()
    world.use()
    assert world.problems == []
    assert all(known.sure for known in world.expected.streams.values())


def test_the_days_are_busy() -> None:
    """Producers' batches are stored, repeated and fenced off; logs are trimmed; a full disk refuses."""
    trimmed = undisturbed("node-trims", 1)
    starts = [partition.view.start_offset for _, partition in trimmed.open_partitions()]
    assert max(starts) > 0
    ((_, held),) = (found for found in undisturbed("node-groups", 1).open_partitions() if found[0].key == ORDERS)
    assert 0 < held.view.start_offset <= 6, "trimmed up to its hold"
    full = undisturbed("node-full", 1).expected
    fates = {item.fate.value for known in full.streams.values() for item in known.partitions[0].log.sent}
    assert fates == {"acknowledged as durable", "refused, or found missing once"}
    producers = undisturbed("node-producers", 1).expected.streams[ORDERS].partitions[0].producers
    assert [sending.epoch for sending in producers.values()] == [1, 0]
    assert undisturbed("node-access", 1).expected.revoked


def test_a_stride_leaves_out_what_other_seeds_try() -> None:
    """As many seeds as the stride is wide cut the power at every operation."""
    few = [explore("node-access", seed, Plan(stride=40, faults=False)) for seed in (1, 2)]
    assert all(result.crash_points < result.operations for result in few)
    assert few[0].digest != few[1].digest


def test_the_command_explores_a_node() -> None:
    arguments = ["--seed", "3", "--runs", "2", "--workload", "node-access", "--stride", "40", "--trace"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "metadata/catalog/0/segment-000001.log" in result.output
    assert "violations    0" in result.output


@pytest.mark.soak
@pytest.mark.parametrize("name", NODE_WORKLOADS)
def test_many_seeds_keep_the_promises(name: str) -> None:
    """Every operation of every recovery, other operations of the day seed by seed, until the time is used up."""
    end, seed, recoveries = time.monotonic_ns() + SOAK_NS, 1000, 0
    while time.monotonic_ns() < end:
        result = explore(name, seed, Plan(second_crashes_max=1000, second_outcomes=2, stride=11))
        assert not told(result)
        seed, recoveries = seed + 1, recoveries + result.recoveries
    runs = seed - 1000
    sys.stdout.write(f"{name}: no failure in {runs} seeds, so under {3 / runs:.2g} per seed; {recoveries} recoveries\n")
