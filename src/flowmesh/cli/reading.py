"""The work of `log read`: from a place to the end, over damaged and trimmed ranges, and on as the log grows.

The log belongs to another process, if to any: all that is seen of it is what its durable mark says is safe.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from flowmesh.assemble import read_local_log
from flowmesh.base.errors import CorruptData, OffsetOutOfRange
from flowmesh.cli.parameters import Start
from flowmesh.format import columns as column_format
from flowmesh.format import names
from flowmesh.format.batch import BatchKind
from flowmesh.format.columns import Columns
from flowmesh.log.findings import Damage
from flowmesh.log.scan import Block, scan
from flowmesh.log.view import Cursor, LogView

POLL_S = 0.05
"""How often a follower looks at the durable mark; only when that has moved does it look at the log."""
REST_FACTOR = 2
"""A follower rests for so many times what its last look took, so that it never does nothing but look."""


class Reading:
    def __init__(
        self, directory: Path, start: Start, *, follow: bool, skip_damaged: bool, tell: Callable[[str], None]
    ) -> None:
        self.skipped = 0
        """Damaged ranges that were passed over."""
        self._directory = directory
        self._follow = follow
        self._skip_damaged = skip_damaged
        self._tell = tell
        self._mark: bytes | None = None
        self._look_s = 0.0
        self._view = self._look()
        self._offset = _offset_of(self._view, start)
        self._cursor: Cursor | None = None

    def columns(self) -> Iterator[tuple[int, Columns]]:
        """Batches of records, each with the offset from which on it is wanted."""
        while True:
            while self._offset < self._view.end_offset:
                yield from self._next()
            if not self._follow:
                self._require_whole_end()
                return
            self._await_more()

    def _next(self) -> Iterator[tuple[int, Columns]]:
        try:
            chunk = self._view.read(self._offset, cursor=self._cursor)
        except CorruptData as error:
            self._pass_over(error, _end_of_damage(self._view, self._offset))
            return
        except OffsetOutOfRange:
            self._look_again()  # trimmed since the last look
            return
        first, self._offset, self._cursor = self._offset, chunk.next_offset, chunk.cursor
        for block in chunk.blocks:
            found = self._decode(block)
            if found is not None:
                yield first, found

    def _decode(self, block: Block) -> Columns | None:
        if block.batch_header.kind != BatchKind.RECORDS:
            kind = BatchKind(block.batch_header.kind).name.lower()
            self._tell(f"offsets [{block.base_offset}, {block.end_offset}) hold a {kind} batch, which is not shown.")
            return None
        try:
            return column_format.decode(block.batch)
        except CorruptData as error:
            place = f"offsets [{block.base_offset}, {block.end_offset}) cannot be served"
            self._pass_over(CorruptData(f"{place}: {error.message}", hint=error.hint), None)
            return None

    # --- what stands in the way ---------------------------------------------------------------------------------

    def _pass_over(self, error: CorruptData, end_offset: int | None) -> None:
        if not self._skip_damaged:
            raise CorruptData(
                error.message, hint="--skip-damaged reads on behind it; 'flowmesh log verify' tells more."
            )
        self.skipped += 1
        self._tell(f"skipped: {error.message}")
        if end_offset is not None:
            self._offset, self._cursor = end_offset, None

    def _require_whole_end(self) -> None:
        """Damage at the end lies past the last offset that can be read, where no read would come upon it."""
        for damage in self._view.damage:
            if damage.first_offset >= self._offset:
                self._pass_over(damage.error(), None)

    # --- what another process does meanwhile --------------------------------------------------------------------

    def _await_more(self) -> None:
        while self._offset >= self._view.end_offset:
            time.sleep(max(POLL_S, self._look_s * REST_FACTOR))
            if self._mark is None or self._mark_now() != self._mark:
                self._look_again()

    def _look(self) -> LogView:
        began = time.monotonic()
        self._mark = self._mark_now()  # before the look: a mark that moves meanwhile is then seen as moved
        view = read_local_log(self._directory)
        self._look_s = time.monotonic() - began
        return view

    def _look_again(self) -> None:
        chain = self._view.chain
        self._view, self._cursor = self._look(), None
        if self._view.chain != chain:
            raise CorruptData(f"the log in {self._directory} was replaced by another one while it was read.")
        start = self._view.start_offset
        if self._offset < start:
            self._tell(
                f"offsets [{self._offset}, {start}) were trimmed away before they were read; going on at {start}."
            )
            self._offset = start

    def _mark_now(self) -> bytes | None:
        try:
            return (self._directory / names.MARK).read_bytes()
        except FileNotFoundError:
            return None


def cut(columns: Columns, first: int, limit: int | None) -> tuple[int, int]:
    """Which rows are wanted: not those before `first`, and not more than `limit`."""
    low = max(first - columns.base_offset, 0)
    return low, columns.count if limit is None else min(columns.count, low + limit)


def _offset_of(view: LogView, start: Start) -> int:
    if start.end:
        return view.start_offset if start.end == "earliest" else view.end_offset
    if start.offset is None:
        return view.offset_for_time(start.time_ns)
    if not view.start_offset <= start.offset <= view.end_offset:
        raise OffsetOutOfRange(start.offset, view.start_offset, view.end_offset)
    return start.offset


def _end_of_damage(view: LogView, offset: int) -> int:
    """The first offset behind the damage at `offset` that can be served again, or the end of the view."""
    segments = [segment for segment in view.segments if segment.base_offset <= offset < segment.end_offset]
    known = [damage for damage in view.damage if damage.covers(offset)]
    for segment in segments if not known else ():
        walk = scan(segment.source.file(), segment.number, segment.header, segment.start(), segment.end_position)
        known += [found for found in walk if isinstance(found, Damage) and found.covers(offset)]
    ends = [damage.end_offset for damage in known if damage.end_offset > offset]
    after = [segment.base_offset for segment in view.segments if segment.base_offset > offset]
    return min([*ends, *after, view.end_offset])
