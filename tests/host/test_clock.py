"""The real clock, driven by two numbers that the test moves: what the system says, and what has elapsed."""

import time
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from flowmesh.host.clock import FOLLOW_NS_MAX, RealClock
from flowmesh.ports.clock import Clock

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
START = 1_700_000_000 * SECOND


@dataclass
class Machine:
    system: int = START
    elapsed: int = 50 * SECOND

    def clock(self) -> RealClock:
        return RealClock(lambda: self.system, lambda: self.elapsed)

    def run(self, duration_ns: int, *, system_ns: int | None = None) -> None:
        self.elapsed += duration_ns
        self.system += duration_ns if system_ns is None else system_ns


def test_implements_the_port() -> None:
    clock: Clock = RealClock()
    first, wall = clock.monotonic_ns(), time.time_ns()
    assert clock.monotonic_ns() >= first
    assert abs(clock.wall_ns() - wall) < 60 * SECOND


def test_default_monotonic_counts_from_boot() -> None:
    assert abs(RealClock().monotonic_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) < 60 * SECOND


def test_runs_with_the_time_that_elapses() -> None:
    machine = Machine()
    clock = machine.clock()
    assert clock.wall_ns() == START
    machine.run(7 * SECOND)
    assert clock.wall_ns() == START + 7 * SECOND
    assert clock.monotonic_ns() == 57 * SECOND
    assert clock.jump_ns() == 0


def test_follows_a_small_step_ahead_at_once() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.run(SECOND, system_ns=SECOND + FOLLOW_NS_MAX)
    assert clock.wall_ns() == machine.system
    assert clock.jump_ns() == 0


def test_follows_a_small_step_back_at_half_speed() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.system -= 60 * SECOND
    assert clock.wall_ns() == START
    assert clock.jump_ns() == -60 * SECOND
    machine.run(40 * SECOND)
    assert clock.wall_ns() == START + 20 * SECOND
    machine.run(80 * SECOND)
    assert clock.wall_ns() == machine.system == START + 60 * SECOND
    machine.run(SECOND)
    assert clock.wall_ns() == machine.system
    assert clock.jump_ns() == 0


def test_follows_slow_drift_beyond_the_limit_in_total() -> None:
    machine = Machine()
    clock = machine.clock()
    for _ in range(200):
        machine.run(DAY, system_ns=DAY + 4 * SECOND)
        assert clock.wall_ns() == machine.system
    assert machine.system - machine.elapsed - (START - 50 * SECOND) > FOLLOW_NS_MAX


def test_ignores_jumps_of_days() -> None:
    for jump in (30 * DAY, -30 * DAY, FOLLOW_NS_MAX + 1, -FOLLOW_NS_MAX - 1):
        machine = Machine()
        clock = machine.clock()
        machine.run(SECOND)
        machine.system += jump
        assert clock.wall_ns() == START + SECOND
        assert clock.jump_ns() == jump
        machine.run(3600 * SECOND)
        assert clock.wall_ns() == START + 3601 * SECOND
        assert clock.jump_ns() == jump


def test_believes_the_system_again_when_it_comes_back() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.system += 30 * DAY
    assert clock.wall_ns() == START
    machine.run(SECOND, system_ns=-30 * DAY + 2 * SECOND)
    assert clock.wall_ns() == START + 2 * SECOND
    assert clock.jump_ns() == 0


def test_sleep_of_the_machine_counts() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.run(8 * 3600 * SECOND)
    assert clock.wall_ns() == START + 8 * 3600 * SECOND
    assert clock.jump_ns() == 0


@given(st.lists(st.tuples(st.integers(0, DAY), st.integers(-40 * DAY, 40 * DAY)), max_size=30))
def test_never_goes_back_and_never_outruns_the_limit(moves: list[tuple[int, int]]) -> None:
    machine = Machine()
    clock = machine.clock()
    before = clock.wall_ns()
    for elapsed, step in moves:
        machine.run(elapsed, system_ns=elapsed + step)
        now = clock.wall_ns()
        assert before <= now <= before + elapsed + FOLLOW_NS_MAX
        assert now >= before + elapsed // 2
        before = now


def test_stands_still_when_the_elapsed_time_goes_back() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.run(10 * SECOND)
    assert clock.wall_ns() == START + 10 * SECOND
    machine.run(-5 * SECOND)
    assert clock.wall_ns() == START + 10 * SECOND
