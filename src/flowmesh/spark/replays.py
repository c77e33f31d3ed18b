"""What an earlier attempt of a task has stored already, and which rows of this attempt those are.

An attempt may hand over its rows in another order than the one before it, so rows are told by what they hold: as long
as both agree they are walked side by side; from the first difference on stored rows are counted by their digests, and
each row of this attempt that is among them is dropped once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from itertools import chain

import pyarrow as pa

from flowmesh.base.limits import MIB

HELD_BYTES_MAX = 256 * MIB
"""New rows that wait until all stored ones have been found; beyond it they are sent before that is certain."""
_DIGEST_BYTES = 16


class Replay:
    """Stored rows of one lane, in order; rows of this attempt go through `take`, and those that are new come out."""

    def __init__(self, stored: Iterator[pa.RecordBatch]) -> None:
        self._stored = stored
        self._next: pa.RecordBatch | None = None
        self._loose: Counter[bytes] | None = None
        """Digests of stored rows that are not found yet, once the order differs."""
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self.matched = 0
        self._advance()

    @property
    def finished(self) -> bool:
        """Everything that is stored was found among the rows of this attempt."""
        return self._next is None and not self._loose

    @property
    def missing(self) -> int:
        """Stored rows that were not found."""
        if self._loose is not None:
            return self._loose.total()
        return 0 if self._next is None else len(self._next) + sum(map(len, self._stored))

    def take(self, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        """What of these, and of those that were held back, may be sent now."""
        if self._loose is None:
            rows = self._side_by_side(rows)
        if self._loose is not None and len(rows):
            rows = self._without_loose(rows)
        if len(rows):
            self._held.append(rows)
            self._held_bytes += rows.nbytes
        if not self.finished and self._held_bytes < HELD_BYTES_MAX:
            return []
        return self.release()

    def extend(self, stored: Iterator[pa.RecordBatch]) -> None:
        """More is stored than was known. Rows that were held back have to be taken again."""
        if self._loose is None:
            self._stored = chain(self._stored, stored)
            if self._next is None:
                self._advance()
        else:
            for batch in stored:
                self._loose.update(_digests(batch))

    def release(self) -> list[pa.RecordBatch]:
        held, self._held, self._held_bytes = self._held, [], 0
        return held

    def _advance(self) -> None:
        self._next = next((batch for batch in self._stored if len(batch)), None)

    def _side_by_side(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        while self._next is not None and len(rows):
            count = min(len(rows), len(self._next))
            if not _same(rows.slice(0, count), self._next.slice(0, count)):
                self._loose = Counter(_digests(self._next))
                for batch in self._stored:
                    self._loose.update(_digests(batch))
                self._next = None
                break
            self.matched += count
            rows, self._next = rows.slice(count), self._next.slice(count)
            if not len(self._next):
                self._advance()
        return rows

    def _without_loose(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        assert self._loose is not None
        loose, new = self._loose, []
        for digest in _digests(rows):
            left = loose.get(digest, 0)
            new.append(left == 0)
            if left > 1:
                loose[digest] = left - 1
            elif left:
                del loose[digest]
        self.matched += new.count(False)
        return rows.filter(pa.array(new, pa.bool_()))


def _same(rows: pa.RecordBatch, stored: pa.RecordBatch) -> bool:
    """By what they hold: the fields of one may be nullable and those of the other not."""
    return all(ours.equals(theirs) for ours, theirs in zip(rows.columns, stored.columns, strict=True))


def _digests(rows: pa.RecordBatch) -> list[bytes]:
    """One for each row, over all of its columns."""
    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in rows.columns
    ]
    return [blake2b(repr(row).encode(), digest_size=_DIGEST_BYTES).digest() for row in zip(*columns, strict=True)]
