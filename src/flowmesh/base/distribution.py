"""Values counted by size class: the cheapest statistics that still tell a median from a tail."""

from __future__ import annotations

from bisect import bisect_left


class Distribution:
    """One writer adds; anybody may look, and may find the last value in one of the numbers and not yet in the other."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        """Upper ends of the classes, included in them, in rising order. One more class takes what is larger."""
        self.counts = [0] * (len(bounds) + 1)
        self.total: float = 0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)
