"""A range of a log, cut into pieces of about one size that can be read side by side. Asks indexes, and reads no data.

The same range of the same log is cut in the same way whenever it is asked for, however much was appended since: only
what lies below the range's end decides. A query that is run again after a crash finds its old pieces.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from flowmesh.base.errors import BadRequest, OffsetOutOfRange
from flowmesh.base.limits import SPLIT_BYTES_DEFAULT, SPLIT_BYTES_MAX, SPLIT_BYTES_MIN, SPLITS_MAX
from flowmesh.log.index import SparseIndex
from flowmesh.log.segment import Segment
from flowmesh.log.view import LogView


class Split(NamedTuple):
    """Records from `base_offset` to before `end_offset`. The first split of a range may begin inside a block, and the
    last one end in one; all others begin and end between two."""

    base_offset: int
    end_offset: int
    size_bytes: int
    """As stored, to within an interval of the index."""


class _Mark(NamedTuple):
    """A block that the index noted, and how many bytes of the range's segments lie before it."""

    offset: int
    distance: int


def split(
    view: LogView,
    offset: int | None = None,
    end_offset: int | None = None,
    split_bytes: int = SPLIT_BYTES_DEFAULT,
) -> list[Split]:
    """Covers `[offset, end_offset)` exactly; what is left out is the log's own bound. At most `SPLITS_MAX` pieces."""
    if not SPLIT_BYTES_MIN <= split_bytes <= SPLIT_BYTES_MAX:
        raise BadRequest(
            f"split_bytes is {split_bytes}; it goes from {SPLIT_BYTES_MIN} to {SPLIT_BYTES_MAX}.", field="split_bytes"
        )
    low = view.start_offset if offset is None else offset
    high = view.end_offset if end_offset is None else end_offset
    for bound in (low, high):
        if not view.start_offset <= bound <= view.end_offset:
            raise OffsetOutOfRange(bound, view.start_offset, view.end_offset)
    if low > high:
        raise BadRequest(f"end_offset is {high}, and the range begins at {low}.", field="end_offset")
    segments = [segment for segment in view.segments if segment.base_offset < high and segment.end_offset > low]
    if low == high or not segments:
        return []
    try:
        return _Cutter(view, segments, low, high).cut(split_bytes)
    except FileNotFoundError as error:
        # Trimmed since this view was taken, and not open here.
        raise OffsetOutOfRange(low, segments[0].end_offset, view.end_offset) from error


class _Cutter:
    """One range of one view. Holds the index of one segment at a time, because a long log has many."""

    def __init__(self, view: LogView, segments: list[Segment], low: int, high: int) -> None:
        self._view = view
        self._segments = segments
        self._low = low
        self._high = high
        self._before_last = sum(segment.end_position for segment in segments[:-1])

    def cut(self, split_bytes: int) -> list[Split]:
        start, last = self._start(), self._last_mark()
        # Two neighbours are always larger together than one may be, so this bounds their number.
        size = max(split_bytes, -(-2 * (last.distance - start.distance) // (SPLITS_MAX - 1)))
        edges = [start, *self._edges(start, size)]
        end = _Mark(self._high, max(self._end(), edges[-1].distance))
        return [
            Split(begin.offset, after.offset, after.distance - begin.distance)
            for begin, after in zip(edges, [*edges[1:], end], strict=True)
        ]

    def _edges(self, begin: _Mark, size: int) -> Iterator[_Mark]:
        """Where one piece ends and the next begins: the last mark that keeps a piece within `size`, when there is one
        beyond. What comes after the last mark goes to the last piece, since how long that is changes with time."""
        distance = 0
        within: _Mark | None = None
        for segment in self._segments:
            index = segment.source.index(segment)
            rows = bisect_left(index.offsets, self._high, 0, self._rows(segment, index))
            row = bisect_right(index.offsets, begin.offset, 0, rows)
            while True:
                beyond = bisect_right(index.positions, begin.distance + size - distance, row, rows)
                if beyond > row:
                    within = _Mark(index.offsets[beyond - 1], distance + index.positions[beyond - 1])
                if beyond == rows:
                    break
                begin = within or _Mark(index.offsets[beyond], distance + index.positions[beyond])
                yield begin
                row, within = (beyond if within else beyond + 1), None
            distance += segment.end_position

    def _start(self) -> _Mark:
        segment = self._segments[0]
        index = segment.source.index(segment)
        noted = index.before_offset(self._low, self._rows(segment, index))
        return _Mark(self._low, noted[1] if noted is not None else segment.start().position)

    def _last_mark(self) -> _Mark:
        segment = self._segments[-1]
        index = segment.source.index(segment)
        noted = index.before_offset(self._high - 1, self._rows(segment, index))
        return _Mark(self._high, self._before_last + (noted[1] if noted is not None else segment.start().position))

    def _end(self) -> int:
        """How far the range reaches, for the size of its last piece."""
        segment = self._segments[-1]
        index = segment.source.index(segment)
        rows = self._rows(segment, index)
        after = bisect_left(index.offsets, self._high, 0, rows)
        inside = self._high < segment.end_offset and after < rows
        return self._before_last + (index.positions[after] if inside else segment.end_position)

    def _rows(self, segment: Segment, index: SparseIndex) -> int:
        """How much of the index this view may see: all of it, but for the segment that is still growing."""
        return min(len(index), segment.index_rows) if segment is self._view.active else len(index)
