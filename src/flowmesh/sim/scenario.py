"""What an exploration needs of the thing that it interrupts: a world on a simulated disk, and what is known outside it.

The log and the node each bring worlds of their own; nothing here knows either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from flowmesh.sim.disk import SimDisk


class Stopped(Exception):
    """What runs on the disk takes nothing more until it is opened anew, or could not be opened."""


class Known(Protocol):
    """The expected values, kept outside of what is tested; they outlive every crash."""

    def copy(self) -> Known: ...


class SimulatedWorld(Protocol):
    disk: SimDisk
    problems: list[str]
    """What broke a promise, in words."""
    stopped: bool
    watch_from: int
    """From which disk operation on other readers come by."""

    @property
    def expected(self) -> Known: ...

    def open(self) -> None:
        """May raise `Stopped`."""

    def check(self, *, machine_died: bool) -> None:
        """What was opened against what is expected of it."""

    def use(self) -> None:
        """A little of everything, to see that a recovery left something that is of use."""


class Scenario(NamedTuple):
    about: str
    world: Callable[[SimDisk, int, Known | None], SimulatedWorld]
    """On this disk, with its chances from this seed; without anything known it is the first one."""
    play: Callable[[SimulatedWorld], None]
    is_log: Callable[[str], bool]
    """Whether a directory is a log's own, whose opening makes durable again what a failed fsync has given up."""
    capacity_bytes: int | None = None
