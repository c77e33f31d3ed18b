"""The tail cache: recent entries in memory, written by the appender, read by everybody without a lock."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from flowmesh.format.segment import SegmentHeader
from flowmesh.log.scan import Block, parse

_COMPACT_AT = 1024


class _Item(NamedTuple):
    entry: bytes
    position: int
    segment: SegmentHeader


class TailView(NamedTuple):
    """A window of the cache as it was when it was taken. An item dropped since reads as a miss."""

    bases: list[int]
    items: list[_Item | None]
    begin: int
    end: int

    def read(self, offset: int, bytes_max: int) -> list[Block]:
        """Blocks from the one that holds `offset`, of one segment, at least one and then up to `bytes_max`; or none."""
        row = bisect_right(self.bases, offset, self.begin, self.end) - 1
        found: list[Block] = []
        size = 0
        while self.begin <= row < self.end:
            item = self.items[row]
            if item is None or (found and size + len(item.entry) > bytes_max):
                break
            if found and item.segment is not found[0].segment:
                break
            found.append(parse(item.segment, memoryview(item.entry), item.position))
            size += len(item.entry)
            row += 1
        return found


class TailCache:
    """Owned by the appender. Lists only grow; a full cache empties its oldest rows and, at times, starts new lists."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._size = 0
        self._begin = 0
        self._bases: list[int] = []
        self._items: list[_Item | None] = []

    def __len__(self) -> int:
        return len(self._items)

    def add(self, segment: SegmentHeader, base_offset: int, position: int, entry: bytes) -> None:
        self._bases.append(base_offset)
        self._items.append(_Item(entry, position, segment))
        self._size += len(entry)
        while self._size > self._bytes_max:
            oldest = self._items[self._begin]
            assert oldest is not None
            self._items[self._begin] = None
            self._size -= len(oldest.entry)
            self._begin += 1

    def clear(self) -> None:
        self._bases, self._items, self._begin, self._size = [], [], 0, 0

    def view(self) -> TailView:
        if self._begin >= _COMPACT_AT and self._begin * 2 > len(self._items):
            self._bases, self._items = self._bases[self._begin :], self._items[self._begin :]
            self._begin = 0
        return TailView(self._bases, self._items, self._begin, len(self._items))


NO_TAIL = TailView([], [], 0, 0)
