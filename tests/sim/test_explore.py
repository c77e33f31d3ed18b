"""The log keeps its promises wherever it is interrupted: at every operation, and again while it recovers."""

import sys
import time

import pytest
from click.testing import CliRunner

from flowmesh.sim.explore import Exploration, Plan, crash_modes, explore
from flowmesh.sim.faults import OPERATIONS
from flowmesh.sim.main import main
from flowmesh.sim.scenarios import SCENARIOS
from flowmesh.sim.workloads import WORKLOADS

SOAK_NS = 60 * 10**9
"""What one workload may take of a soak; the seeds it got through are printed."""


def told(result: Exploration) -> str:
    return "\n".join(violation.describe() for violation in result.violations)


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_crash_and_no_fault_breaks_a_promise(name: str) -> None:
    result = explore(name, 1)
    assert not told(result)
    assert result.crash_points > result.operations > 30
    assert result.recoveries > 5 * result.operations


def test_the_workloads_together_make_every_mutation_that_a_log_needs() -> None:
    made = {str(entry[0]) for name in WORKLOADS for entry in explore(name, 1, Plan(0, 0, False)).trace}
    assert sorted(made) == sorted(
        ["create", "make_directory", "remove", "rename", "sync", "sync_directory", "truncate", "write"]
    )
    assert made <= set(OPERATIONS)


def test_every_way_to_crash_is_tried() -> None:
    assert crash_modes(Plan(random_outcomes=2)) == ["lose_all", "keep_all", "keep_names_lose_data", "random", "random"]


def test_an_exploration_is_fixed_by_its_seed() -> None:
    first, again, other = explore("clean", 5), explore("clean", 5), explore("clean", 6)
    assert first == again
    assert first.digest != other.digest


def test_the_command_shows_what_it_tried() -> None:
    result = CliRunner().invoke(main, ["--seed", "3", "--runs", "2", "--workload", "clean", "--trace"])
    assert result.exit_code == 0, result.output
    assert "sync_directory" in result.output
    assert "violations    0" in result.output
    assert "no failure in 2 runs: under 1.5 per seed" in result.output


def test_the_command_teaches() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert all(name in result.output for name in SCENARIOS)
    assert "flowmesh-sim --seed 7" in result.output


@pytest.mark.soak
@pytest.mark.parametrize("name", WORKLOADS)
def test_many_seeds_keep_the_promises(name: str) -> None:
    """Every operation of every recovery, seed after seed, until the time is used up."""
    end, seed, recoveries = time.monotonic_ns() + SOAK_NS, 1000, 0
    while time.monotonic_ns() < end:
        result = explore(name, seed, Plan(random_outcomes=4, second_crashes_max=1000, second_outcomes=3))
        assert not told(result)
        seed, recoveries = seed + 1, recoveries + result.recoveries
    runs = seed - 1000
    sys.stdout.write(f"{name}: no failure in {runs} seeds, so under {3 / runs:.2g} per seed; {recoveries} recoveries\n")
