"""The simulated clock: it stands still until it is moved."""

import pytest

from flowmesh.ports.clock import Clock
from flowmesh.sim.clock import START_MONOTONIC_NS, START_WALL_NS, SimClock


def test_stands_still_until_it_is_moved() -> None:
    clock = SimClock()
    port: Clock = clock
    assert [port.wall_ns(), port.wall_ns()] == [START_WALL_NS] * 2
    assert [port.monotonic_ns(), port.monotonic_ns()] == [START_MONOTONIC_NS] * 2
    clock.advance(5)
    assert port.wall_ns() == START_WALL_NS + 5
    assert port.monotonic_ns() == START_MONOTONIC_NS + 5


def test_starts_when_told() -> None:
    assert SimClock(123).wall_ns() == 123


def test_may_tick_with_every_reading() -> None:
    clock = SimClock(0, tick_ns=10)
    assert [clock.wall_ns(), clock.wall_ns()] == [0, 10]
    assert clock.monotonic_ns() == START_MONOTONIC_NS + 20
    clock.advance(100)
    assert clock.wall_ns() == 130


def test_does_not_go_back() -> None:
    with pytest.raises(AssertionError, match="go back"):
        SimClock().advance(-1)
