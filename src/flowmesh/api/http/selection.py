"""Which rows of which blocks answer a read: cut to the record, because a block may hold many more than are wanted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from flowmesh.format import columns
from flowmesh.format.columns import BytesColumn, Columns, Header, Record
from flowmesh.log.scan import Block


class Selection(NamedTuple):
    """Rows `[begin, end)` of one block."""

    block: Block
    columns: Columns
    begin: int
    end: int

    @property
    def next_offset(self) -> int:
        return self.block.base_offset + self.end

    @property
    def size_bytes(self) -> int:
        """Of the values; what else there is weighs little."""
        offsets = self.columns.values.offsets
        return offsets[self.end] - offsets[self.begin]

    def records(self) -> list[Record]:
        whole, begin, end = self.columns, self.begin, self.end
        if end - begin == whole.count:
            return whole.records()
        keys: Iterable[bytes | None] = [None] * (end - begin) if whole.keys is None else _items(whole.keys, begin, end)
        offsets = range(whole.base_offset + begin, whole.base_offset + end)
        return list(map(Record, offsets, self._times(), keys, _items(whole.values, begin, end), self._headers()))

    def _times(self) -> list[int]:
        deltas, base = self.columns.time_deltas, self.columns.base_time_ns
        if deltas is None:
            return [base] * (self.end - self.begin)
        return [base + delta for delta in deltas[self.begin : self.end].tolist()]

    def _headers(self) -> list[tuple[Header, ...]]:
        whole = self.columns
        if whole.header_bounds is None or whole.header_names is None or whole.header_values is None:
            return [()] * (self.end - self.begin)
        bounds = whole.header_bounds[self.begin : self.end + 1].tolist()
        first, last = bounds[0], bounds[-1]
        names = _plain_items(whole.header_names, first, last)
        pairs = tuple(zip(names, _plain_items(whole.header_values, first, last), strict=True))
        return [pairs[start - first : stop - first] for start, stop in pairwise(bounds)]


def _plain_items(column: BytesColumn, begin: int, end: int) -> list[bytes]:
    bounds = column.offsets[begin : end + 1].tolist()
    data = bytes(column.data[bounds[0] : bounds[-1]])
    first = bounds[0]
    return [data[start - first : stop - first] for start, stop in pairwise(bounds)]


def _items(column: BytesColumn, begin: int, end: int) -> list[bytes | None]:
    items: list[bytes | None] = list(_plain_items(column, begin, end))
    if column.present is None:
        return items
    bits = int.from_bytes(column.present, "little") >> begin
    return [item if bits >> row & 1 else None for row, item in enumerate(items)]


def select(blocks: Iterable[Block], offset: int, records_max: int, bytes_max: int) -> list[Selection]:
    """Rows from `offset` on, up to both bounds; the first one is taken even when it alone is over them."""
    chosen: list[Selection] = []
    for block in blocks:
        decoded = columns.decode(block.batch)
        begin = max(offset - block.base_offset, 0)
        if begin >= decoded.count:
            continue
        end = _end(decoded, begin, records_max, bytes_max, least=0 if chosen else 1)
        if end == begin:
            break
        chosen.append(Selection(block, decoded, begin, end))
        records_max -= end - begin
        bytes_max -= decoded.values.offsets[end] - decoded.values.offsets[begin]
        if end < decoded.count or records_max <= 0 or bytes_max <= 0:
            break
    return chosen


def pieces(block: Block, decoded: Columns, offset: int, records_max: int, bytes_max: int) -> Iterator[Selection]:
    """All rows of a block from `offset` on, in pieces that keep to both bounds unless one row alone is over them."""
    begin = max(offset - block.base_offset, 0)
    while begin < decoded.count:
        end = _end(decoded, begin, records_max, bytes_max, least=1)
        yield Selection(block, decoded, begin, end)
        begin = end


def _end(decoded: Columns, begin: int, records_max: int, bytes_max: int, *, least: int) -> int:
    offsets = decoded.values.offsets
    fitting = bisect_right(offsets, offsets[begin] + bytes_max, begin, decoded.count + 1) - 1
    return min(max(fitting, begin + least), begin + records_max, decoded.count)
