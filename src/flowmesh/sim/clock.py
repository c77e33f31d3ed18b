"""A clock that moves only when it is told to. It never reads the time of this machine."""

from __future__ import annotations

START_WALL_NS = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z: any fixed moment does, this one reads well in a trace."""

START_MONOTONIC_NS = 1_000_000_000
"""Not zero, so that code which takes zero for 'never' is caught."""


class SimClock:
    def __init__(self, start_wall_ns: int = START_WALL_NS, *, tick_ns: int = 0) -> None:
        """Every reading moves the time on by `tick_ns`, for code that waits for time to pass."""
        assert tick_ns >= 0
        self._start_wall_ns = start_wall_ns
        self._elapsed_ns = 0
        self._tick_ns = tick_ns

    def wall_ns(self) -> int:
        return self._start_wall_ns + self._read()

    def monotonic_ns(self) -> int:
        return START_MONOTONIC_NS + self._read()

    def advance(self, duration_ns: int) -> None:
        assert duration_ns >= 0, "time does not go back"
        self._elapsed_ns += duration_ns

    def _read(self) -> int:
        elapsed_ns = self._elapsed_ns
        self._elapsed_ns += self._tick_ns
        return elapsed_ns
