"""Rows of this attempt among those that are stored: walked side by side, or found by what they hold."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.format import batch as batches
from flowmesh.format import columns
from flowmesh.format.arrow import to_arrow
from flowmesh.format.batch import ANONYMOUS, Codec
from flowmesh.format.columns import Record
from flowmesh.spark.lanes import encoded
from flowmesh.spark.replays import Replay
from flowmesh.spark.rows import RowShape, routed

CELLS = st.tuples(st.none() | st.binary(max_size=1), st.none() | st.binary(max_size=1), st.integers(0, 2))


def rows_of(cells: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """As a task makes them."""
    values, keys, times = ([cell[at] for cell in cells] for at in range(3))
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    made = pa.record_batch(
        {
            "value": pa.array(values, pa.binary()),
            "key": pa.array(keys, pa.binary()),
            "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
            "headers": pa.array([[("n", b"%d" % time)] * (time % 2) for time in times], pa.list_(pair)),
        }
    )
    shape = RowShape({name: at for at, name in enumerate(made.schema.names)}, ())
    return next(iter(routed(made, shape, 1, 0))).rows


def stored_form(rows: pa.RecordBatch) -> pa.RecordBatch:
    """As a node gives them back."""
    return to_arrow(batches.decode(encoded(rows, ANONYMOUS, Codec.NONE)), rows.schema.names)


def in_pieces(rows: pa.RecordBatch, size: int) -> list[pa.RecordBatch]:
    return [rows.slice(first, size) for first in range(0, len(rows), size)]


def count(pieces: list[pa.RecordBatch]) -> Counter[str]:
    return Counter(repr(row) for piece in pieces for row in piece.to_pylist())


def run(rows: pa.RecordBatch, stored: pa.RecordBatch, size: int) -> tuple[list[pa.RecordBatch], Replay]:
    replay = Replay(iter(in_pieces(stored_form(stored), size + 1)))
    new: list[pa.RecordBatch] = []
    for piece in in_pieces(rows, size):
        new += replay.take(piece)
    return new, replay


@given(st.lists(CELLS, min_size=1, max_size=40), st.integers(1, 40), st.integers(1, 7))
def test_rows_that_come_in_the_same_order_are_walked_side_by_side(cells: list[Any], end: int, size: int) -> None:
    rows = rows_of(cells)
    new, replay = run(rows, rows.slice(0, min(end, len(rows))), size)
    assert replay._loose is None
    assert (replay.finished, replay.missing, replay.matched) == (True, 0, min(end, len(rows)))
    assert count(new) == count([rows.slice(end)])


@given(
    st.lists(CELLS, min_size=1, max_size=40), st.integers(1, 40), st.integers(1, 7), st.randoms(use_true_random=False)
)
def test_rows_in_any_order_are_taken_away_once_for_each_that_is_stored(
    cells: list[Any], end: int, size: int, chance: random.Random
) -> None:
    stored = rows_of(cells)
    shuffled = list(cells)
    chance.shuffle(shuffled)
    rows = rows_of(shuffled)
    new, replay = run(rows, stored.slice(0, min(end, len(stored))), size)
    assert (replay.finished, replay.missing) == (True, 0)
    assert count(new) == count([rows]) - count([stored.slice(0, end)])


@given(st.lists(CELLS, max_size=20), st.lists(CELLS, min_size=1, max_size=20), st.integers(1, 7))
def test_stored_rows_that_do_not_come_are_counted_and_nothing_goes_out(
    cells: list[Any], others: list[Any], size: int
) -> None:
    strange = [(b"other", key, time) for _, key, time in others]
    new, replay = run(rows_of(cells or [(b"", b"", 0)]), rows_of(strange), size)
    assert (replay.finished, replay.missing) == (False, len(strange))
    assert new == []


def test_what_is_stored_later_counts_too() -> None:
    first, second, rest = (rows_of([(b"%d" % number, None, 0)]) for number in range(3))
    for order in ([first, second, rest], [second, rest, first], [rest, second, first]):
        replay = Replay(iter([stored_form(first)]))
        held = replay.take(order[0])
        replay.extend(iter([stored_form(second)]))
        new: list[pa.RecordBatch] = []
        for rows in (*held, *replay.release(), *order[1:]):
            new += replay.take(rows)
        assert replay.finished
        assert count(new) == count([rest])


def test_records_say_what_the_rows_say() -> None:
    rows = rows_of([(b"v", b"k", 1), (None, None, 2)])
    found = columns.decode(batches.decode(encoded(rows, ANONYMOUS, Codec.ZSTD))).records()
    assert found == [Record(0, 1000, b"k", b"v", ((b"n", b"1"),)), Record(1, 2000, None, None, ())]
