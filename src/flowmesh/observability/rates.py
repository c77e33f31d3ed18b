"""How fast counters grow: two samples of all of them, and the difference to now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

KeyT = TypeVar("KeyT")

SAMPLE_EVERY_NS = 5_000_000_000


class _Sample(NamedTuple, Generic[KeyT]):
    at_ns: int
    counts: Mapping[KeyT, int]


class Rates(Generic[KeyT]):
    """Rates over the last 5 to 10 seconds, when `sample` is called every 5 seconds."""

    def __init__(self, at_ns: int, counts: Mapping[KeyT, int]) -> None:
        first = _Sample(at_ns, dict(counts))
        self._older, self._newer = first, first

    def sample(self, at_ns: int, counts: Mapping[KeyT, int]) -> None:
        if at_ns - self._newer.at_ns >= SAMPLE_EVERY_NS:
            self._older, self._newer = self._newer, _Sample(at_ns, dict(counts))

    def per_second(self, key: KeyT, at_ns: int, count: int) -> float:
        """What was not there at the time of the sample began at nothing."""
        elapsed_ns = at_ns - self._older.at_ns
        if elapsed_ns <= 0:
            return 0.0
        return max(count - self._older.counts.get(key, 0), 0) * 1e9 / elapsed_ns
