"""The sparse index: one row for each interval, and a search that never starts too late."""

from __future__ import annotations

from array import array

from flowmesh.base.limits import INDEX_INTERVAL_BYTES
from flowmesh.format.index import IndexFile, IndexHeader
from flowmesh.log.index import NO_TIME, SparseIndex

HEADER = IndexHeader(bytes(32), 0, 0, bytes(32), 0, 0, 0, 0)


def noted(*rows: tuple[int, int, int]) -> SparseIndex:
    index = SparseIndex()
    for row in rows:
        index.note(*row)
    return index


def test_one_block_is_noted_for_each_interval() -> None:
    index = noted(*((offset, 165 + offset * 1000, offset) for offset in range(200)))
    gaps = [after - before for before, after in zip(index.positions, index.positions[1:], strict=False)]
    assert index.positions[0] == 165
    assert len(index) == len(index.offsets) == len(index.positions) == 4
    assert all(INDEX_INTERVAL_BYTES <= gap < INDEX_INTERVAL_BYTES + 1000 for gap in gaps)


def test_an_offset_is_looked_for_from_the_last_noted_block_that_begins_at_or_before_it() -> None:
    index = noted((0, 165, NO_TIME), (10, 100_000, 5), (20, 200_000, 9))
    assert index.before_offset(0, 3) == (0, 165)
    assert index.before_offset(9, 3) == (0, 165)
    assert index.before_offset(10, 3) == (10, 100_000)
    assert index.before_offset(99, 3) == (20, 200_000)
    assert SparseIndex().before_offset(0, 0) is None


def test_a_time_is_looked_for_from_where_everything_before_is_older() -> None:
    index = noted((0, 165, NO_TIME), (10, 100_000, 5), (20, 200_000, 9))
    assert index.before_time(5, 3) == (0, 165), "a record of that very time may stand before the second row"
    assert index.before_time(6, 3) == (10, 100_000)
    assert index.before_time(100, 3) == (20, 200_000)


def test_rows_that_a_view_may_not_see_do_not_exist_for_it() -> None:
    index = noted((0, 165, NO_TIME), (10, 100_000, 5))
    assert index.before_offset(10, 1) == (0, 165)
    assert index.before_time(10, 1) == (0, 165)
    assert index.before_offset(10, 0) is None
    assert index.before_time(10, 0) is None


def test_an_index_from_a_file_goes_on_where_it_ended() -> None:
    columns = array("Q", [0]), array("Q", [165]), array("q", [NO_TIME])
    index = SparseIndex.of_file(IndexFile(HEADER, *columns))
    index.note(1, 165 + INDEX_INTERVAL_BYTES - 1, 1)
    assert len(index) == 1
    index.note(2, 165 + INDEX_INTERVAL_BYTES, 2)
    assert list(index.offsets) == [0, 2]
