"""What readers hold: an immutable view of the durable part of a log, and reads from it. Never writes anything."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from flowmesh.base.errors import BadRequest, OffsetOutOfRange
from flowmesh.base.limits import INDEX_INTERVAL_BYTES, READ_BYTES_DEFAULT, READ_BYTES_MAX
from flowmesh.format import columns
from flowmesh.format.batch import BatchKind
from flowmesh.format.chain import ChainIdentity
from flowmesh.log.findings import Damage, Finding
from flowmesh.log.scan import Block, Position, Run, read_on, scan_runs
from flowmesh.log.segment import Segment
from flowmesh.log.tail import TailView


class Cursor(NamedTuple):
    """Where a sequential reader stands, so that its next read needs no look-up. Any cursor may be dropped."""

    segment: int
    position: int
    offset: int
    entry_bytes: int


class Chunk(NamedTuple):
    """Whole blocks, in order, without a gap. The first one may begin before the offset that was asked for."""

    blocks: list[Block]
    next_offset: int
    cursor: Cursor | None


class LogView(NamedTuple):
    """A log at one moment. Taking one is free; it stays valid while appends and trims go on elsewhere."""

    chain: ChainIdentity
    closed: tuple[Segment, ...]
    active: Segment
    start_offset: int
    tail: TailView
    damage: tuple[Damage, ...]

    @property
    def end_offset(self) -> int:
        """The durable end: the offset that the next record will get, or more while writes are under way."""
        return self.active.end_offset

    @property
    def segments(self) -> tuple[Segment, ...]:
        return (*self.closed, self.active)

    @property
    def size_bytes(self) -> int:
        return sum(segment.end_position for segment in self.segments)

    def read_tail(self, offset: int, bytes_max: int = READ_BYTES_DEFAULT) -> Chunk | None:
        """The same as `read`, when memory alone can answer; None when a disk would have to be asked."""
        if offset >= self.end_offset:
            self._require_sound(offset)  # a lost end is not the end
        self._require_inside(offset)
        if offset == self.end_offset:
            return Chunk([], offset, None)
        blocks = self.tail.read(offset, bytes_max)
        return Chunk(blocks, blocks[-1].end_offset, None) if blocks else None

    def read(self, offset: int, bytes_max: int = READ_BYTES_DEFAULT, cursor: Cursor | None = None) -> Chunk:
        """Blocks from the one that holds `offset`: at least one, and no more than fit into `bytes_max`.

        At the end of the log the chunk is empty. A damaged range raises `CorruptData` with its bounds.
        """
        if not 1 <= bytes_max <= READ_BYTES_MAX:
            raise BadRequest(f"a read takes 1 to {READ_BYTES_MAX} bytes, not {bytes_max}.", field="bytes_max")
        hot = self.read_tail(offset, bytes_max)
        if hot is not None:
            return hot
        self._require_sound(offset)
        segment = self._segment_of(offset)
        try:
            blocks = self._blocks(segment, offset, bytes_max, cursor)
        except FileNotFoundError as error:
            # Trimmed since this view was taken, and not open here.
            raise OffsetOutOfRange(offset, segment.end_offset, self.end_offset) from error
        if not blocks:
            raise Damage(segment.number, 0, segment.end_position, offset, segment.end_offset, Finding.MISSING).error()
        last = blocks[-1]
        after = Cursor(segment.number, last.end_position, last.end_offset, len(last.entry))
        return Chunk(blocks, last.end_offset, after)

    def blocks(self, offset: int | None = None, bytes_max: int = READ_BYTES_DEFAULT) -> Iterator[Block]:
        """Every block from `offset` to the end of this view, a chunk at a time."""
        position, cursor = self.start_offset if offset is None else offset, None
        while position < self.end_offset:
            chunk = self.read(position, bytes_max, cursor)
            yield from chunk.blocks
            position, cursor = chunk.next_offset, chunk.cursor
        self._require_sound(position)

    def offset_for_time(self, time_ns: int) -> int:
        """The first offset whose record is not older than `time_ns`; the end offset when all are older."""
        for segment in self.segments:
            if segment.max_time_ns >= time_ns and segment.blocks:
                try:
                    return self._offset_in(segment, time_ns)
                except FileNotFoundError as error:
                    raise OffsetOutOfRange(segment.base_offset, segment.end_offset, self.end_offset) from error
        return self.end_offset

    def _offset_in(self, segment: Segment, time_ns: int) -> int:
        noted = segment.source.index(segment).before_time(time_ns, self._rows(segment))
        for found in self._walk(segment, noted, INDEX_INTERVAL_BYTES):
            if isinstance(found, Damage):
                raise found.within(segment.end_offset).error()
            for block in found:
                if block.batch_header.max_time_ns >= time_ns:
                    return _offset_in_block(block, time_ns)
        return segment.end_offset

    def _blocks(self, segment: Segment, offset: int, bytes_max: int, cursor: Cursor | None) -> list[Block]:
        if cursor is not None and (cursor.segment, cursor.offset) == (segment.number, offset):
            start = Position(cursor.position, offset, b"")
            # Blocks are mostly alike, so this ends between two of them and reads nothing twice.
            size = max(bytes_max // cursor.entry_bytes, 1) * cursor.entry_bytes
            found = read_on(segment.source.file(), segment.header, start, segment.end_position, size)
            return _fitting(found, bytes_max) or _gather(segment, _scan(segment, start, bytes_max), offset, bytes_max)
        noted = segment.source.index(segment).before_offset(offset, self._rows(segment))
        return _gather(segment, self._walk(segment, noted, bytes_max), offset, bytes_max)

    def _walk(self, segment: Segment, noted: tuple[int, int] | None, chunk_bytes: int) -> Iterator[Run | Damage]:
        """The segment from a place that the index noted. When no sound entry is there, the index is made anew first."""
        if noted is not None:
            walk = _scan(segment, Position(noted[1], noted[0], b""), chunk_bytes)
            first = next(walk, None)
            if isinstance(first, list):
                yield first
                yield from walk
                return
            segment.source.replace_index(segment.reindexed())
        yield from _scan(segment, segment.start(), chunk_bytes)

    def _rows(self, segment: Segment) -> int:
        """How much of the index this view may see: all of it, but for the segment that is still growing."""
        rows = len(segment.source.index(segment))
        return min(rows, segment.index_rows) if segment is self.active else rows

    def _segment_of(self, offset: int) -> Segment:
        row = bisect_right(self.closed, offset, key=_base_offset) - 1
        if offset >= self.active.base_offset or row < 0:
            return self.active
        return self.closed[row]

    def _require_inside(self, offset: int) -> None:
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)

    def _require_sound(self, offset: int) -> None:
        for damage in self.damage:
            if damage.covers(offset):
                raise damage.error()


def _scan(segment: Segment, start: Position, chunk_bytes: int) -> Iterator[Run | Damage]:
    file, end = segment.source.file(), segment.end_position
    return scan_runs(file, segment.number, segment.header, start, end, chunk_bytes=chunk_bytes)


def _gather(segment: Segment, walk: Iterator[Run | Damage], offset: int, bytes_max: int) -> list[Block]:
    """Blocks from the one that holds `offset`, as many as fit, and never across a damaged range."""
    found: list[Block] = []
    for run in walk:
        if isinstance(run, Damage):
            if found:
                break
            if run.covers(offset):
                raise run.within(segment.end_offset).error()
        elif run[-1].end_offset > offset:
            found += run if found else run[bisect_right(run, offset, key=_end_offset) :]
            if found[-1].end_position - found[0].position >= bytes_max:
                break
    return _fitting(found, bytes_max)


def _fitting(found: list[Block], bytes_max: int) -> list[Block]:
    """As many as fit, but at least one."""
    if found and found[-1].end_position - found[0].position > bytes_max:
        del found[max(bisect_right(found, found[0].position + bytes_max, key=_end_position), 1) :]
    return found


def _end_offset(block: Block) -> int:
    return block.end_offset


def _end_position(block: Block) -> int:
    return block.end_position


def _base_offset(segment: Segment) -> int:
    return segment.header.base_offset


def _offset_in_block(block: Block, time_ns: int) -> int:
    if block.batch_header.kind == BatchKind.FOREIGN:
        return block.base_offset
    times = columns.decode(block.batch).times()
    return block.base_offset + next(row for row, time in enumerate(times) if time >= time_ns)
