"""The sparse index of one segment in memory: where to start looking for an offset or a time."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from flowmesh.base.limits import INDEX_INTERVAL_BYTES
from flowmesh.base.times import UNSTAMPED
from flowmesh.format.index import IndexFile


class SparseIndex:
    """Three columns that only grow, so a reader that knows how many rows it may see needs no lock."""

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.positions = array("Q")
        self.times = array("q")
        self._next_position = 0

    @classmethod
    def of_file(cls, file: IndexFile) -> SparseIndex:
        index = cls()
        index.offsets, index.positions, index.times = file.offsets, file.positions, file.times
        if index.positions:
            index._next_position = index.positions[-1] + INDEX_INTERVAL_BYTES
        return index

    def __len__(self) -> int:
        return len(self.times)

    def note(self, offset: int, position: int, max_time_before_ns: int) -> None:
        """Called for every block; keeps one for each interval. Times go last: their count is the index's length."""
        if position >= self._next_position:
            self.offsets.append(offset)
            self.positions.append(position)
            self.times.append(max_time_before_ns)
            self._next_position = position + INDEX_INTERVAL_BYTES

    def before_offset(self, offset: int, rows: int) -> tuple[int, int] | None:
        """Offset and position of the last noted block that begins at or before `offset`."""
        row = bisect_right(self.offsets, offset, 0, rows) - 1
        return (self.offsets[row], self.positions[row]) if row >= 0 else None

    def before_time(self, time_ns: int, rows: int) -> tuple[int, int] | None:
        """Offset and position of the last noted block before which every record is older than `time_ns`."""
        row = bisect_left(self.times, time_ns, 0, rows) - 1
        return (self.offsets[row], self.positions[row]) if row >= 0 else None


NO_TIME = UNSTAMPED
