"""Splits: a range is covered exactly, in pieces of about one size, the same ones whenever it is asked for."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.base.errors import BadRequest, OffsetOutOfRange
from flowmesh.base.limits import INDEX_INTERVAL_BYTES, KIB, SPLIT_BYTES_MAX, SPLIT_BYTES_MIN
from flowmesh.format import columns
from flowmesh.log import splits
from flowmesh.log.appender import Appender
from flowmesh.log.options import LogOptions
from flowmesh.log.retention import Retention
from flowmesh.log.splits import Split, split
from flowmesh.log.view import LogView
from flowmesh.sim.disk import SimDisk
from tests.log.damage import open_here, read_here
from tests.log.watched import WatchedDisk

OPTIONS = LogOptions(segment_bytes=400 * KIB, tail_cache_bytes=0, disk_reserve_bytes=0)
SIZES = st.lists(st.integers(1, 150 * KIB), min_size=1, max_size=40)


def fill(log: Appender, *sizes: int) -> None:
    """A block of three records for each size, each a third of it."""
    for size in sizes:
        log.write([columns.encode([b"x" * (size // 3)] * 3)])
        log.sync()


def filled(*sizes: int) -> Appender:
    log = open_here("/log", OPTIONS, disk=SimDisk(1))
    fill(log, *sizes)
    return log


def edges(found: list[Split]) -> list[int]:
    return [found[0].base_offset, *[piece.end_offset for piece in found]]


def block_ends(view: LogView) -> set[int]:
    return {block.end_offset for block in view.blocks()}


def entry_bytes(view: LogView) -> int:
    return sum(len(block.entry) for block in view.blocks())


@pytest.fixture
def log() -> Appender:
    """[0, 150): 50 blocks of 30 KB in 4 segments."""
    return filled(*[30_000] * 50)


@given(sizes=SIZES, bounds=st.tuples(st.integers(0, 120), st.integers(0, 120)), split_bytes=st.integers(2**16, 2**19))
def test_a_range_is_covered_exactly_and_cut_between_blocks(
    sizes: list[int], bounds: tuple[int, int], split_bytes: int
) -> None:
    view = filled(*sizes).view
    low, high = sorted(min(bound, view.end_offset) for bound in bounds)
    found = split(view, low, high, split_bytes)
    if low == high:
        assert found == []
        return
    assert (edges(found)[0], edges(found)[-1]) == (low, high)
    assert [piece.base_offset for piece in found[1:]] == [piece.end_offset for piece in found[:-1]]
    assert all(piece.base_offset < piece.end_offset for piece in found)
    assert set(edges(found)[1:-1]) <= block_ends(view)
    largest = max(sizes) + INDEX_INTERVAL_BYTES + 1_000
    assert all(piece.size_bytes <= split_bytes + largest for piece in found)
    for piece, after in pairwise(found):
        assert piece.size_bytes + after.size_bytes > split_bytes, "two pieces could have been one"


@given(sizes=SIZES, more=SIZES, end=st.integers(1, 120), split_bytes=st.integers(2**16, 2**19))
def test_what_is_appended_later_and_a_restart_change_no_piece(
    sizes: list[int], more: list[int], end: int, split_bytes: int
) -> None:
    disk = SimDisk(1)
    log = open_here("/log", OPTIONS, disk=disk)
    fill(log, *sizes)
    high = min(end, log.view.end_offset)
    before = edges(split(log.view, 0, high, split_bytes))
    fill(log, *more)
    assert edges(split(log.view, 0, high, split_bytes)) == before
    after = open_here("/log", OPTIONS, disk=disk.crash("keep_all"))
    assert edges(split(after.view, 0, high, split_bytes)) == before


def test_without_bounds_it_is_the_whole_log_and_the_sizes_add_up(log: Appender) -> None:
    found = split(log.view, split_bytes=100_000)
    assert (found[0].base_offset, found[-1].end_offset) == (0, 150)
    assert len(found) > 10
    headers = log.view.size_bytes - entry_bytes(log.view)
    assert 0 <= sum(piece.size_bytes for piece in found) - entry_bytes(log.view) <= headers


def test_a_piece_may_span_segments(log: Appender) -> None:
    assert len(log.view.segments) == 4
    assert [(piece.base_offset, piece.end_offset) for piece in split(log.view)] == [(0, 150)]
    assert len(split(log.view, split_bytes=1_000_000)) == 2


def test_the_same_pieces_come_from_files_alone(tmp_path: Path) -> None:
    log = open_here(tmp_path / "log", OPTIONS)
    fill(log, *[30_000] * 50)
    assert split(read_here(tmp_path / "log"), split_bytes=70_000) == split(log.view, split_bytes=70_000)


def test_no_data_is_read(tmp_path: Path) -> None:
    log = open_here(tmp_path / "log", OPTIONS)
    fill(log, *[30_000] * 50)
    log.close()
    disk = WatchedDisk()
    view = read_here(tmp_path / "log", disk)
    del disk.reads[:]
    assert len(split(view, split_bytes=100_000)) > 10
    assert disk.reads
    assert not [name for name, *_ in disk.reads if name.endswith(".log")]


def test_their_number_is_bounded(log: Appender, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(split(log.view, split_bytes=SPLIT_BYTES_MIN)) > 7
    monkeypatch.setattr(splits, "SPLITS_MAX", 7)
    assert 2 < len(split(log.view, split_bytes=SPLIT_BYTES_MIN)) <= 7


@pytest.mark.parametrize("low, high, wrong", [(-1, 5, -1), (0, 151, 151), (151, 152, 151), (2**70, 2**70, 2**70)])
def test_what_the_log_does_not_hold_cannot_be_cut(log: Appender, low: int, high: int, wrong: int) -> None:
    with pytest.raises(OffsetOutOfRange) as refused:
        split(log.view, low, high)
    assert (refused.value.offset, refused.value.start_offset, refused.value.end_offset) == (wrong, 0, 150)


def test_what_was_trimmed_is_named(log: Appender) -> None:
    log.trim(Retention(size_bytes=500_000))
    start = log.view.start_offset
    assert start > 0
    with pytest.raises(OffsetOutOfRange) as refused:
        split(log.view, 0)
    assert refused.value.start_offset == start
    assert split(log.view)[0].base_offset == start


def test_a_range_that_ends_before_it_begins_is_refused(log: Appender) -> None:
    with pytest.raises(BadRequest, match="end_offset is 3, and the range begins at 4"):
        split(log.view, 4, 3)


@pytest.mark.parametrize("split_bytes", [0, SPLIT_BYTES_MIN - 1, SPLIT_BYTES_MAX + 1])
def test_a_size_out_of_bounds_is_refused(log: Appender, split_bytes: int) -> None:
    with pytest.raises(BadRequest, match="split_bytes is"):
        split(log.view, split_bytes=split_bytes)


def test_an_empty_log_has_no_pieces() -> None:
    assert split(filled().view) == []
