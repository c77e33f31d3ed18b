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


class Sending(NamedTuple):
    """A batch on its way: the number of the request, its rows, and the bytes to send again."""

    number: int
    first_sequence: int
    rows: pa.RecordBatch
    data: bytes

    @property
    def end_sequence(self) -> int:
        return self.first_sequence + len(self.rows)


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
        self.under_way: Sending | None = None
        self.replay: Replay | None = None
        self.to_skip = 0
        """Rows that are stored already, where rows are counted rather than looked at."""
        self.met_others = False
        """Rows of an earlier attempt were found."""
        self._waiting: deque[pa.RecordBatch] = deque()
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
            self._waiting.append(rows)
            self.waiting_bytes += weight(rows)

    def take_batch(self) -> pa.RecordBatch:
        """About BATCH_BYTES of what waits; less when less waits."""
        taken, size, count = 0, 0, 0
        for rows in self._waiting:
            piece = weight(rows)
            if size + piece > BATCH_BYTES or count + len(rows) > BATCH_ROWS_MAX:
                room = max(BATCH_BYTES - size, 0) * len(rows) // max(piece, 1)
                part = min(len(rows), room, BATCH_ROWS_MAX - count)
                while part > 1 and weight(rows.slice(0, part)) > 2 * BATCH_BYTES:
                    part //= 2  # the large ones of these rows come first
                count += part
                break
            taken, size, count = taken + 1, size + piece, count + len(rows)
        return self._take(max(count, 1))

    def _take(self, count: int) -> pa.RecordBatch:
        pieces = []
        while count:
            rows = self._waiting.popleft()
            self.waiting_bytes -= weight(rows)
            if len(rows) > count:
                self._waiting.appendleft(rows.slice(count))
                self.waiting_bytes += weight(self._waiting[0])
                rows = rows.slice(0, count)
            pieces.append(rows)
            count -= len(rows)
        return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)

    def take_back(self) -> None:
        """What is under way waits again, before all that waits already."""
        assert self.under_way is not None, "something is under way"
        self._waiting.appendleft(self.under_way.rows)
        self.waiting_bytes += weight(self.under_way.rows)
        self.under_way = None

    @property
    def names(self) -> list[str]:
        """The columns of what waits."""
        return list(self._waiting[0].schema.names)

    def compare(self, stored: Iterator[pa.RecordBatch]) -> None:
        """Whatever waits is looked for among the stored rows first."""
        if self.replay is None:
            self.replay = Replay(stored)
        else:
            # Rows went out before all that was stored had been found.
            self.replay.extend(stored)
            self._waiting.extend(self.replay.release())
        self._again()

    def skip(self, count: int) -> None:
        self.to_skip += count
        self._again()

    def _again(self) -> None:
        waiting, self._waiting, self.waiting_bytes = self._waiting, deque(), 0
        for rows in waiting:
            self.put(rows)


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
