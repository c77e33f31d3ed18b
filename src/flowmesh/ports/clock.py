"""Time, as the cores see it."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def wall_ns(self) -> int:
        """Nanoseconds since 1970. Never jumps while a process lives, whatever is done to the system clock."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds since some fixed moment; never goes back."""
        ...
