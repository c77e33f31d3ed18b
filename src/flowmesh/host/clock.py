"""The time of this machine, with the jumps of its clock taken out. The only place that reads a clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FOLLOW_NS_MAX = 3 * 60 * 1_000_000_000
"""How far the system clock may be away and still be believed: time servers correct by less, mishaps jump by more."""

_ELAPSED_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_ns() -> int:
    """Since some moment before the process started, sleep included where the system can tell (`CLOCK_BOOTTIME`)."""
    return time.clock_gettime_ns(_ELAPSED_CLOCK)


class RealClock:
    """Wall time is the system's time at the start plus what has elapsed since.

    A system clock that drifts or is corrected a little is followed, so that a process that runs for a year stays right:
    ahead at once, backwards by running at half speed until it is even. A jump of more than `FOLLOW_NS_MAX` is ignored
    until the system clock comes back or the process is restarted: else one wrong date would expire everything.
    """

    def __init__(self, system_ns: Callable[[], int] = time.time_ns, elapsed_ns: Callable[[], int] = elapsed_ns) -> None:
        self._system_ns = system_ns
        self._elapsed_ns = elapsed_ns
        # Two threads that read at once must not take the time back for a third.
        self._guard = threading.Lock()
        self._last_elapsed_ns = elapsed_ns()
        self._last_wall_ns = system_ns()

    def wall_ns(self) -> int:
        with self._guard:
            return self._read()[0]

    def monotonic_ns(self) -> int:
        return self._elapsed_ns()

    def jump_ns(self) -> int:
        """How far the system clock is ahead of this one; negative when it is behind. More than `FOLLOW_NS_MAX` either
        way means that it jumped and is not believed."""
        with self._guard:
            wall_ns, system_ns = self._read()
            return system_ns - wall_ns

    def _read(self) -> tuple[int, int]:
        elapsed_ns = self._elapsed_ns()
        system_ns = self._system_ns()
        passed_ns = max(0, elapsed_ns - self._last_elapsed_ns)
        expected_ns = self._last_wall_ns + passed_ns
        if abs(system_ns - expected_ns) > FOLLOW_NS_MAX:
            wall_ns = expected_ns
        else:
            wall_ns = max(system_ns, self._last_wall_ns + passed_ns // 2)
        self._last_elapsed_ns = max(elapsed_ns, self._last_elapsed_ns)
        self._last_wall_ns = wall_ns
        return wall_ns, system_ns
