"""Reading: from any offset, with and without a cursor, by time, and from a view that the log has moved away from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flowmesh.base.errors import BadRequest, CorruptData, OffsetOutOfRange
from flowmesh.base.limits import KIB, MIB, READ_BYTES_MAX
from flowmesh.format import batch as batches
from flowmesh.format import columns
from flowmesh.log.appender import Appender
from flowmesh.log.retention import Retention
from flowmesh.log.view import Cursor, LogView
from flowmesh.sim.clock import SimClock
from tests.log import damage
from tests.log.damage import SMALL, append, open_here, read_here, segment_path, toggle, values, values_of, written
from tests.log.watched import WatchedDisk

EVERYTHING = Retention(size_bytes=0)
DAY_1, DAY_2, DAY_3 = 100, 200, 300
BLOCK_BYTES = 209


@pytest.fixture
def log(tmp_path: Path) -> Appender:
    """[0, 12) in two segments, nothing in memory."""
    log = open_here(tmp_path / "log")
    append(log, 6)
    return log


def offsets(view: LogView, offset: int, bytes_max: int = MIB) -> list[int]:
    return list(values_of(view.read(offset, bytes_max).blocks))


def test_a_read_begins_with_the_block_that_holds_the_offset(log: Appender) -> None:
    assert offsets(log.view, 0) == offsets(log.view, 1) == [0, 1, 2, 3, 4, 5]
    assert offsets(log.view, 2) == offsets(log.view, 3) == [2, 3, 4, 5]
    assert offsets(log.view, 6) == [6, 7, 8, 9, 10, 11]
    assert log.view.read(5).next_offset == 6


@pytest.mark.parametrize("bytes_max", [1, 2, 3, 4, 100, BLOCK_BYTES, BLOCK_BYTES + 1, 2 * BLOCK_BYTES - 1])
def test_a_read_gives_one_block_at_least_and_no_more_than_fit(bytes_max: int, log: Appender) -> None:
    assert offsets(log.view, 2, bytes_max) == [2, 3]
    assert offsets(log.view, 2, 2 * BLOCK_BYTES) == [2, 3, 4, 5]
    assert values_of(log.view.blocks(0, bytes_max)) == written(range(12))


def test_at_the_end_there_is_nothing_yet_and_past_it_is_an_error(log: Appender) -> None:
    assert log.view.read(12) == ([], 12, None)
    with pytest.raises(OffsetOutOfRange) as refused:
        log.view.read(13)
    assert (refused.value.start_offset, refused.value.end_offset) == (0, 12)


@pytest.mark.parametrize("bytes_max", [-1, 0, READ_BYTES_MAX + 1])
def test_an_amount_that_no_read_takes_is_refused(bytes_max: int, log: Appender) -> None:
    with pytest.raises(BadRequest, match="bytes"):
        log.view.read(0, bytes_max)


def test_below_a_trim_is_out_of_range_and_says_what_is_there(log: Appender) -> None:
    log.trim(EVERYTHING)
    for offset in (0, 5):
        with pytest.raises(OffsetOutOfRange, match=r"\[6, 12\)"):
            log.view.read(offset)
        with pytest.raises(OffsetOutOfRange):
            log.view.read_tail(offset)
    assert values(log.view) == written(range(6, 12))


def test_a_cursor_goes_straight_on_and_gives_what_a_read_without_one_gives(tmp_path: Path) -> None:
    disk = WatchedDisk()
    big = replace(SMALL, segment_bytes=MIB, segment_records=10**6)
    log = open_here(tmp_path, big, disk=disk)
    append(log, 200, 20)
    offset, cursor = 0, None
    while offset < log.view.end_offset:
        disk.reads.clear()
        chunk = log.view.read(offset, 4 * KIB, cursor)
        assert chunk.blocks == log.view.read(offset, 4 * KIB).blocks
        assert values_of(chunk.blocks) == written(range(offset, chunk.next_offset))
        if cursor is not None:
            assert disk.reads[0][1] == cursor.position, "no byte before it is read again"
        offset, cursor = chunk.next_offset, chunk.cursor


def sized(log: Appender, *sizes: int) -> None:
    for size in sizes:
        log.write([columns.encode([bytes(size)])])
    log.sync()


def walked(view: LogView, disk: WatchedDisk, bytes_max: int) -> list[tuple[int, int]]:
    """How many blocks each read with a cursor gave, and how often it went to the disk for them; but for the first."""
    chunk = view.read(0, bytes_max)
    seen = []
    while chunk.next_offset < view.end_offset:
        disk.reads.clear()
        chunk = view.read(chunk.next_offset, bytes_max, chunk.cursor)
        assert len(chunk.blocks) == 1 or sum(len(block.entry) for block in chunk.blocks) <= bytes_max
        seen.append((len(chunk.blocks), len(disk.reads)))
    return seen


BIG = replace(SMALL, segment_bytes=MIB, segment_records=10**6)


def test_blocks_of_one_size_take_one_read_of_the_disk_for_all_that_fit(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, BIG, disk=disk)
    append(log, 100)
    assert walked(log.view, disk, 10 * BLOCK_BYTES) == [(10, 1)] * 9
    assert walked(log.view, disk, 11 * BLOCK_BYTES - 1) == [(10, 1)] * 9


def test_a_cursor_is_right_whatever_the_next_block_measures(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, BIG, disk=disk)
    sized(log, 100, 9_000, *[100] * 60, 5_000, 7_000)
    assert walked(log.view, disk, 4 * KIB) == [(1, 2), (14, 1), (14, 1), (14, 1), (14, 1), (4, 1), (1, 2), (1, 2)]
    assert [block.base_offset for block in log.view.blocks(0, 4 * KIB)] == list(range(64))


def test_damage_behind_a_cursor_is_named_and_never_served(tmp_path: Path) -> None:
    log = open_here(tmp_path, BIG)
    append(log, 10)
    cursor = log.view.read(0, BLOCK_BYTES).cursor
    damage.change_entry(segment_path(tmp_path, 1), 3, toggle(damage.DATA + 70), crc=False)
    chunk = log.view.read(2, MIB, cursor)
    assert values_of(chunk.blocks) == written(range(2, 6))
    with pytest.raises(CorruptData, match=r"segment 1.*offsets \[6, 8\)"):
        log.view.read(6, MIB, chunk.cursor)


def test_a_cursor_that_stands_elsewhere_is_not_believed(log: Appender) -> None:
    first = log.view.read(0, 1).cursor
    assert first is not None
    assert values_of(log.view.read(8, MIB, first).blocks) == written(range(8, 12))
    wrong = Cursor(first.segment, first.position + 1, 2, first.entry_bytes)
    with pytest.raises(CorruptData):
        log.view.read(2, MIB, wrong)


def test_a_view_stays_as_it_was_while_the_log_goes_on(log: Appender) -> None:
    before = log.view
    append(log, 5)
    assert values(before) == written(range(12))
    assert values(log.view) == written(range(22))


def test_what_is_written_is_not_shown_before_it_is_durable(log: Appender) -> None:
    log.write([damage.batch(12)])
    assert log.written_end == 14
    assert log.view.end_offset == 12
    log.sync()
    assert values(log.view) == written(range(14))


def test_a_view_outlives_a_trim_as_far_as_its_files_are_open(log: Appender) -> None:
    opened, unopened = log.view, read_here(log.directory)
    opened.read(0)
    log.trim(EVERYTHING)
    assert values(opened) == written(range(12))
    with pytest.raises(OffsetOutOfRange, match=r"holds \[6, 12\)"):
        unopened.read(0)
    with pytest.raises(OffsetOutOfRange):
        unopened.offset_for_time(0)
    assert values(unopened, 6) == written(range(6, 12))


def test_memory_answers_without_the_disk_and_says_when_it_cannot(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, replace(SMALL, tail_cache_bytes=3 * BLOCK_BYTES), disk=disk)
    append(log, 6)
    disk.reads.clear()
    chunk = log.view.read_tail(7)
    assert chunk is not None
    assert values_of(chunk.blocks) == written(range(6, 12))
    assert values_of(log.view.read(7).blocks) == written(range(6, 12))
    assert log.view.read_tail(12) == ([], 12, None)
    assert log.view.read_tail(0) is None
    assert disk.reads == []
    assert values(log.view) == written(range(12))
    assert disk.reads != []


def test_the_same_is_read_from_memory_and_from_disk(tmp_path: Path) -> None:
    log = open_here(tmp_path, replace(SMALL, tail_cache_bytes=MIB))
    append(log, 6)
    cold = read_here(tmp_path)
    for offset in range(12):
        warm = log.view.read(offset).blocks
        assert warm == cold.read(offset).blocks
        assert [block.id for block in warm] == [block.id for block in cold.read(offset).blocks]


def test_a_damaged_range_is_named_and_both_sides_of_it_are_served(log: Appender) -> None:
    damage.change_entry(segment_path(Path(log.directory), 1), 1, toggle(damage.DATA + 70), crc=False)
    assert offsets(log.view, 0) == [0, 1]
    with pytest.raises(CorruptData, match=r"segment 1, bytes \[374, 583\).*offsets \[2, 4\)"):
        log.view.read(2)
    assert offsets(log.view, 4) == [4, 5]
    with pytest.raises(CorruptData):
        values(log.view)


# --- by time ----------------------------------------------------------------------------------------------------------


def timed(log: Appender, *blocks: list[int]) -> None:
    for times in blocks:
        log.write([damage.batch(log.written_end, len(times), times_ns=times)])
    log.sync()


def test_a_time_leads_to_the_first_record_that_is_not_older(tmp_path: Path) -> None:
    log = open_here(tmp_path, replace(SMALL, segment_records=4))
    timed(log, [DAY_1, DAY_1 + 1], [DAY_1 + 2, DAY_2], [DAY_2, DAY_2], [DAY_3, DAY_3 + 1])
    expected = {0: 0, DAY_1: 0, DAY_1 + 1: 1, DAY_1 + 2: 2, DAY_1 + 3: 3, DAY_2: 3, DAY_2 + 1: 6, DAY_3 + 1: 7}
    expected[DAY_3 + 2] = 8
    for view in (log.view, read_here(tmp_path)):
        assert {time: view.offset_for_time(time) for time in expected} == expected


def test_times_out_of_order_hide_no_record(tmp_path: Path) -> None:
    """Every record from the answer's predecessor back is older, whatever the order."""
    log = open_here(tmp_path, replace(SMALL, segment_records=6))
    times = [50, 10, 40, 90, 20, 30, 5, 60, 95, 15, 70, 80, 1, 2]
    timed(log, *([first, second] for first, second in zip(times[::2], times[1::2], strict=True)))
    for view in (log.view, read_here(tmp_path)):
        for time in range(100):
            first = next((offset for offset, found in enumerate(times) if found >= time), len(times))
            assert view.offset_for_time(time) == first


def test_a_time_is_found_through_the_index_of_a_large_segment(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, replace(SMALL, segment_bytes=16 * MIB, segment_records=10**6), disk=disk)
    filler = bytes(40 * KIB)
    for block in range(50):
        log.write([columns.encode([filler] * 2, times_ns=[block * 10, block * 10 + 5])])
    log.sync()
    disk.reads.clear()
    assert log.view.offset_for_time(455) == 91
    assert min(position for _, position, _ in disk.reads) > 40 * 2 * len(filler)
    assert log.view.offset_for_time(456) == 92


def test_records_without_a_time_have_the_time_of_their_append(tmp_path: Path) -> None:
    clock = SimClock(1000)
    log = open_here(tmp_path, clock=clock)
    for _ in range(3):
        append(log)
        clock.advance(10)
    assert [log.view.offset_for_time(time) for time in (999, 1000, 1001, 1020, 1021)] == [0, 0, 2, 4, 6]


def test_a_foreign_batch_is_found_by_its_greatest_time_as_a_whole(tmp_path: Path) -> None:
    log = open_here(tmp_path)
    timed(log, [DAY_1, DAY_1])
    log.write([batches.foreign(b"kafka", 3, base_time_ns=DAY_1, max_time_ns=DAY_2)])
    log.sync()
    assert log.view.offset_for_time(DAY_2) == 2
    (block,) = log.view.read(4).blocks
    assert (block.base_offset, block.end_offset, bytes(block.batch.body)) == (2, 5, b"kafka")


def test_damage_at_the_end_of_a_segment_ends_with_the_segment(log: Appender) -> None:
    damage.change_entry(segment_path(Path(log.directory), 1), 2, toggle(damage.DATA + 70), crc=False)
    with pytest.raises(CorruptData, match=r"offsets \[4, 6\)"):
        log.view.read(4)
    assert offsets(log.view, 6) == [6, 7, 8, 9, 10, 11]
