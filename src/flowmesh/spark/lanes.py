"""One partition's rows of one task on their way: gathered into batches, numbered, and what is not acknowledged yet.

Nothing here talks to a node; `delivery` does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from flowmesh.base.limits import MIB
from flowmesh.client.outbox import wire_form
from flowmesh.format.arrow_encode import from_arrow
from flowmesh.format.batch import Codec, Producer
from flowmesh.spark.replays import Replay

BATCH_BYTES = MIB
BATCH_ROWS_MAX = 100_000
_ROW_COST = 16


class ProducerName(NamedTuple):
    """Who writes: the same for all attempts of a task of a micro-batch, and fenced by the next micro-batch."""

    id: int
    epoch: int


class BatchUnderWay(NamedTuple):
    """A batch on its way: the number of the request, its rows, and the bytes to send again."""

    number: int
    first_sequence: int
    rows: pa.RecordBatch
    data: bytes

    @property
    def end_sequence(self) -> int:
        return self.first_sequence + len(self.rows)


class _Piece(NamedTuple):
    """Rows that wait. Their weight is computed once: on a slice it costs as much as encoding a small one."""

    rows: pa.RecordBatch
    weight: int


class Lane:
    """Sequences below `next_sequence` are stored, and this attempt knows of which rows.

    One batch at a time is under way. With more, one could be taken behind a batch of another attempt that this one has
    not looked at yet; lanes and tasks side by side keep a node busy all the same.
    """

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.next_sequence = 0
        self.end_offset: int | None = None
        """Behind the last batch that is known: whatever else was stored for this lane lies from here on."""
        self.under_way: BatchUnderWay | None = None
        self.replay: Replay | None = None
        self.to_skip = 0
        """Rows that are stored already, where rows are counted rather than looked at."""
        self.met_others = False
        """Rows of an earlier attempt were found."""
        self._waiting: deque[_Piece] = deque()
        self.waiting_bytes = 0

    @property
    def is_full(self) -> bool:
        return self.waiting_bytes >= BATCH_BYTES

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def put(self, rows: pa.RecordBatch) -> None:
        if self.to_skip:
            skipped = min(self.to_skip, len(rows))
            self.to_skip -= skipped
            rows = rows.slice(skipped)
        for piece in self.replay.take(rows) if self.replay is not None else [rows]:
            self._append(piece)
        if self.replay is not None and self.replay.finished:
            self.replay = None

    def _append(self, rows: pa.RecordBatch) -> None:
        if len(rows):
            self._waiting.append(_Piece(rows, weight(rows)))
            self.waiting_bytes += self._waiting[-1].weight

    def take_batch(self) -> pa.RecordBatch:
        """About BATCH_BYTES of what waits; less when less waits."""
        taken: list[pa.RecordBatch] = []
        room, rows_left = BATCH_BYTES, BATCH_ROWS_MAX
        while self._waiting and room > 0 and rows_left:
            rows, size = self._waiting.popleft()
            self.waiting_bytes -= size
            if size > room or len(rows) > rows_left:
                rows, rest = _cut(rows, size, room, rows_left, some=not taken)
                self._put_back(rest)
                room = 0
            if len(rows):
                taken.append(rows)
            room, rows_left = room - size, rows_left - len(rows)
        return taken[0] if len(taken) == 1 else pa.concat_batches(taken)

    def _put_back(self, rows: pa.RecordBatch) -> None:
        if len(rows):
            self._waiting.appendleft(_Piece(rows, weight(rows)))
            self.waiting_bytes += self._waiting[0].weight

    def take_back(self) -> None:
        """What is under way waits again, before all that waits already."""
        assert self.under_way is not None, "something is under way"
        self._put_back(self.under_way.rows)
        self.under_way = None

    @property
    def names(self) -> list[str]:
        """The columns of what waits."""
        return list(self._waiting[0].rows.schema.names)

    def compare(self, stored: Iterator[pa.RecordBatch]) -> None:
        """Whatever waits is looked for among the stored rows first."""
        if self.replay is None:
            self.replay = Replay(stored)
        else:
            # Rows went out before all that was stored had been found.
            self.replay.extend(stored)
            self._waiting.extend(_Piece(rows, 0) for rows in self.replay.release())
        self._again()

    def skip(self, count: int) -> None:
        self.to_skip += count
        self._again()

    def _again(self) -> None:
        waiting, self._waiting, self.waiting_bytes = self._waiting, deque(), 0
        for piece in waiting:
            self.put(piece.rows)


def _cut(
    rows: pa.RecordBatch, size: int, room: int, rows_left: int, *, some: bool
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """As many rows as there is room for, by their average, and the rest; with `some`, at least one."""
    count = min(room * len(rows) // max(size, 1), rows_left)
    if some:
        count = max(count, 1)
    while count > 1 and weight(rows.slice(0, count)) > 2 * BATCH_BYTES:
        count //= 2  # the large ones of these rows come first
    return rows.slice(0, count), rows.slice(count)


def weight(rows: pa.RecordBatch) -> int:
    return int(rows.nbytes) + _ROW_COST * len(rows)


def encoded(rows: pa.RecordBatch, producer: Producer, codec: Codec) -> bytes:
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    times = columns.get("timestamp")
    batch = from_arrow(
        columns["value"],
        keys=columns.get("key"),
        headers=columns.get("headers"),
        times_ns=None if times is None else times.view(pa.int64()),
        codec=codec,
        producer=producer,
    )
    return wire_form(batch)
