"""A segment's source: opened when needed, few at a time, and never led astray by an index that lies."""

from __future__ import annotations

import os
from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from flowmesh.base.limits import KIB, MIB, OPEN_FILES_PER_LOG_MAX
from flowmesh.format import columns
from flowmesh.format import index as index_format
from flowmesh.log.appender import Appender
from tests.log.damage import SMALL, append, index_path, open_here, read_here, values, written
from tests.log.watched import WatchedDisk

ONE_BLOCK = replace(SMALL, segment_records=2)
WIDE = replace(SMALL, segment_bytes=MIB, segment_records=10**6)
MANY = 3 * OPEN_FILES_PER_LOG_MAX


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def open_segments(disk: WatchedDisk) -> int:
    return sum(count for name, count in disk.open_files.items() if name.endswith(".log"))


def test_opening_a_log_of_many_segments_opens_few_files(tmp_path: Path) -> None:
    log = open_here(tmp_path, ONE_BLOCK)
    append(log, MANY)
    log.close()
    disk = WatchedDisk()
    view = read_here(tmp_path, disk)
    assert len(view.closed) == MANY - 1
    assert open_segments(disk) <= 1, "the active one"
    assert disk.read_from(".log") == [(0, 165)] * MANY, "no more than the headers"


def test_reading_many_segments_keeps_few_files_open(tmp_path: Path) -> None:
    before = descriptors()
    disk = WatchedDisk()
    log = open_here(tmp_path, ONE_BLOCK, disk=disk)
    append(log, MANY)
    log.close()
    log = open_here(tmp_path, ONE_BLOCK, disk=disk)
    append(log, MANY)
    most = 0
    for _ in range(2):
        for block in log.view.blocks():
            most = max(most, open_segments(disk))
            assert block.batch_header.count == 2
    assert OPEN_FILES_PER_LOG_MAX // 2 <= most <= OPEN_FILES_PER_LOG_MAX + 2, "and the one that is written to"
    assert descriptors() - before <= OPEN_FILES_PER_LOG_MAX + 4
    assert values(log.view) == written(range(4 * MANY))
    log.close()


def test_a_source_that_was_dropped_is_opened_again(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, ONE_BLOCK, disk=disk)
    append(log, MANY)
    view = log.view
    assert values(view) == values(view) == written(range(2 * MANY))
    disk.reads.clear()
    assert view.read(0).next_offset == 2
    assert disk.read_from("000001.idx"), "its index was dropped with it, and read again from its file"


def test_indexes_of_segments_that_nobody_reads_do_not_stay_in_memory(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, ONE_BLOCK, disk=disk)
    append(log, MANY)
    disk.reads.clear()
    log.view.read(0)
    assert disk.read_from("000001.idx")


# --- indexes that lie -------------------------------------------------------------------------------------------------


def large(directory: Path) -> Appender:
    """One closed segment of 20 blocks with an index row for each pair of them, and an active one."""
    log = open_here(directory, replace(WIDE, segment_records=20))
    for number in range(20):
        log.write([columns.encode([b"%d" % number + bytes(40 * KIB)], times_ns=[number])])
    log.sync()
    append(log)
    log.close()
    return log


Rows = tuple[list[int], list[int], list[int]]


def shifted_offsets(offsets: list[int], positions: list[int], times: list[int]) -> Rows:
    return [offset + 1 if offset else 0 for offset in offsets], positions, times


def shifted_positions(offsets: list[int], positions: list[int], times: list[int]) -> Rows:
    return offsets, [position + 1 for position in positions], times


def swapped_positions(offsets: list[int], positions: list[int], times: list[int]) -> Rows:
    return offsets, positions[::-1], times


def positions_past_the_end(offsets: list[int], positions: list[int], times: list[int]) -> Rows:
    return offsets, [position + 2**40 for position in positions], times


def no_rows(offsets: list[int], positions: list[int], times: list[int]) -> Rows:
    return [], [], []


@pytest.mark.parametrize(
    "lie", [shifted_offsets, shifted_positions, swapped_positions, positions_past_the_end, no_rows]
)
def test_an_index_whose_checksum_is_right_and_whose_rows_are_wrong_misleads_nobody(lie: object, tmp_path: Path) -> None:
    assert callable(lie)
    large(tmp_path)
    path = index_path(tmp_path, 1)
    stored = index_format.decode(path.read_bytes())
    assert stored is not None
    assert len(stored.offsets) == 10
    rows = lie(list(stored.offsets), list(stored.positions), list(stored.times))
    path.write_bytes(index_format.encode(stored.header, array("Q", rows[0]), array("Q", rows[1]), array("q", rows[2])))
    for offset in range(20):
        block = read_here(tmp_path).read(offset, 1).blocks[0]
        assert block.base_offset == offset
        assert bytes(block.data).count(b"%d\0" % offset)
        assert read_here(tmp_path).offset_for_time(offset) == offset


def test_an_index_that_led_astray_is_replaced_and_not_asked_again(tmp_path: Path) -> None:
    large(tmp_path)
    path = index_path(tmp_path, 1)
    stored = index_format.decode(path.read_bytes())
    assert stored is not None
    wrong = array("Q", [position + 1 for position in stored.positions])
    path.write_bytes(index_format.encode(stored.header, stored.offsets, wrong, stored.times))
    disk = WatchedDisk()
    view = read_here(tmp_path, disk)
    view.read(18, 1)
    disk.reads.clear()
    assert view.read(18, 1).next_offset == 19
    assert disk.reads[0][1] == stored.positions[-1], "it goes straight to the block"


def test_an_index_that_goes_missing_while_the_log_is_open_is_made_from_the_segment(tmp_path: Path) -> None:
    large(tmp_path)
    view = read_here(tmp_path)
    index_path(tmp_path, 1).unlink()
    assert [view.read(offset, 1).blocks[0].base_offset for offset in range(20)] == list(range(20))
