"""The one writer: offsets, chain, rolls, and what it does when the disk is full or fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flowmesh.base.durability import ALWAYS
from flowmesh.base.errors import Closed, DiskFull, FlowMeshError, StorageFailed
from flowmesh.base.limits import KIB, MIB, SEGMENT_BYTES_MIN
from flowmesh.format import columns, names
from flowmesh.format import mark as mark_format
from flowmesh.format.batch import Batch
from flowmesh.log.appender import Appender
from flowmesh.log.scan import Block
from flowmesh.log.sealing import Appended
from flowmesh.log.verify import verify_log
from flowmesh.sim.clock import SimClock
from tests.log.damage import (
    DISK,
    SMALL,
    append,
    batch,
    index_path,
    open_here,
    read_here,
    segment_path,
    snapshot,
    values,
    written,
)
from tests.log.watched import IO_ERROR, NO_SPACE, WatchedDisk

WIDE = replace(SMALL, segment_bytes=SEGMENT_BYTES_MIN, segment_records=10**6)
SECOND_NS = 1_000_000_000


def blocks(log: Appender) -> list[Block]:
    return list(log.view.blocks())


def errors(results: list[Appended | FlowMeshError]) -> list[type]:
    return [type(result) for result in results]


def in_kib(kib: int) -> Batch:
    return columns.encode([bytes(kib * KIB)])


# --- appending --------------------------------------------------------------------------------------------------------


def test_an_append_says_where_it_went_and_what_that_promises(tmp_path: Path) -> None:
    clock = SimClock()
    log = open_here(tmp_path, replace(SMALL, durability=ALWAYS, leader_epoch=7), clock=clock)
    clock.advance(5)
    first, second = log.write([batch(0, 2), batch(2, 3)])
    log.sync()
    found = blocks(log)
    assert first == Appended(0, 2, clock.wall_ns(), 1, found[0].header.hash, ALWAYS)
    assert second == Appended(2, 5, clock.wall_ns(), 1, found[1].header.hash, ALWAYS)
    assert [block.batch_header.leader_epoch for block in found] == [7, 7]
    assert values(log.view) == written(range(5))


def test_what_was_sealed_ahead_is_written_as_it_is_and_hangs_on_what_was_there(tmp_path: Path) -> None:
    clock = SimClock(10 * SECOND_NS)
    log = open_here(tmp_path, WIDE, clock=clock)
    log.write([batch(0, 2)])
    ahead = [batch(2, 3), batch(5, 1)]
    sealed_at = clock.wall_ns()
    log.prepare(ahead)
    log.sync()
    assert values(log.view) == written(range(2)), "nothing that was only prepared is seen"
    log._clock = SimClock(clock.wall_ns() - 5 * SECOND_NS)
    found = log.write([*ahead, batch(6, 1)])
    log.sync()
    assert [result.timestamp_ns for result in found if isinstance(result, Appended)] == [sealed_at] * 3
    assert values(log.view) == written(range(7))
    log.close()
    assert verify_log(DISK, str(tmp_path)).sound


@pytest.mark.parametrize("between", ["another batch", "fewer", "a write", "a roll", "other options", "nothing"])
def test_what_was_sealed_ahead_counts_only_if_nothing_came_between(tmp_path: Path, between: str) -> None:
    log = open_here(tmp_path, WIDE)
    log.write([batch(0, 1)])
    first, second = batch(1, 1), batch(2, 1)
    log.prepare([first, second])
    sealed = log._ahead
    assert sealed is not None
    log.sync()
    if between == "a write":
        log.write([first])
    elif between == "a roll":
        log.roll()
    elif between == "other options":
        log.options = replace(log.options, durability=ALWAYS)
    group = {"another batch": [batch(1, 1), second], "fewer": [first], "a write": [second]}.get(
        between, [first, second]
    )
    results = log.write(group)
    log.sync()
    assert values(log.view) == written(range(2 if between == "fewer" else 3))
    assert (results[-1] is sealed.run.appended[-1]) == (between == "nothing")
    assert [result.durability for result in results if isinstance(result, Appended)] == [log.options.durability] * len(
        results
    )
    log.close()
    assert verify_log(DISK, str(tmp_path)).sound


def test_a_failure_lets_nothing_through_that_was_prepared(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, disk=disk)
    log.write([batch(0, 1)])
    ahead = [batch(1, 1)]
    log.prepare(ahead)
    disk.failing = {("sync", names.segment_name(1)): IO_ERROR}
    with pytest.raises(StorageFailed):
        log.sync()
    disk.failing = {}
    assert errors(log.write(ahead)) == [StorageFailed]
    log.prepare(ahead)
    assert errors(log.write(ahead)) == [StorageFailed]


def test_every_block_hangs_on_the_one_before_and_every_segment_too(tmp_path: Path) -> None:
    log = open_here(tmp_path)
    append(log, 9)
    previous = bytes(32)
    for segment in log.view.segments:
        assert segment.header.chain_hash == log.view.chain.hash
        assert segment.header.previous_block_hash == previous
        previous = segment.header.hash
        for block in (block for block in blocks(log) if block.segment == segment.header):
            assert block.header.previous_hash == previous
            previous = block.header.hash


def test_a_group_that_fills_several_segments_is_split_where_they_end(tmp_path: Path) -> None:
    log = open_here(tmp_path)
    results = log.write([batch(offset) for offset in range(0, 20, 2)])
    log.sync()
    assert [result.segment for result in results if isinstance(result, Appended)] == [1] * 3 + [2] * 3 + [3] * 3 + [4]
    assert values(log.view) == written(range(20))


def test_time_in_a_log_never_goes_back(tmp_path: Path) -> None:
    log = open_here(tmp_path, clock=SimClock(10 * SECOND_NS))
    append(log, 4)
    log.close()
    log = open_here(tmp_path, clock=SimClock(5 * SECOND_NS))
    append(log, 4)
    times = [block.header.timestamp_ns for block in blocks(log)]
    assert times == sorted(times)
    assert [segment.header.created_ns for segment in log.view.segments] == [10 * SECOND_NS] * 3
    log.close()


# --- rolling ----------------------------------------------------------------------------------------------------------


def test_a_segment_ends_before_the_block_that_would_make_it_too_large(tmp_path: Path) -> None:
    log = open_here(tmp_path, WIDE)
    log.write([in_kib(10) for _ in range(20)])
    log.sync()
    sizes = [segment.end_position for segment in log.view.segments]
    assert [segment.blocks for segment in log.view.segments] == [6, 6, 6, 2]
    assert all(SEGMENT_BYTES_MIN - 11 * KIB < size <= SEGMENT_BYTES_MIN for size in sizes[:-1])


def test_a_block_larger_than_a_segment_gets_one_of_its_own(tmp_path: Path) -> None:
    log = open_here(tmp_path, WIDE)
    log.write([batch(0), in_kib(100), in_kib(3 * KIB), batch(4)])
    log.sync()
    assert [segment.blocks for segment in log.view.segments] == [1, 1, 1, 1]
    assert [len(value or b"") // KIB for value in values(log.view).values()] == [0, 0, 100, 3 * KIB, 0, 0]
    log.close()
    again = open_here(tmp_path, WIDE)
    assert len(again.view.read(2).blocks[0].data) > 100 * KIB
    assert len(again.view.read(3, MIB).blocks[0].data) > 3 * MIB
    assert verify_log(DISK, str(tmp_path)).sound
    again.close()


def test_a_segment_ends_before_the_batch_that_would_make_it_hold_too_many_records(tmp_path: Path) -> None:
    log = open_here(tmp_path)
    log.write([batch(0, 4), batch(4, 4), batch(8, 2), batch(10, 7), batch(17, 1)])
    log.sync()
    assert [(segment.base_offset, segment.records) for segment in log.view.segments] == [
        (0, 4),
        (4, 6),
        (10, 7),
        (17, 1),
    ]


def test_a_segment_ends_with_its_age_and_an_empty_one_does_not_age(tmp_path: Path) -> None:
    clock = SimClock()
    log = open_here(tmp_path, replace(SMALL, segment_age_ns=SECOND_NS), clock=clock)
    clock.advance(5 * SECOND_NS)
    append(log)
    assert len(log.view.segments) == 1
    append(log)
    assert [segment.blocks for segment in log.view.segments] == [1, 1]
    clock.advance(SECOND_NS - 1)
    append(log)
    assert [segment.blocks for segment in log.view.segments] == [1, 2]
    clock.advance(1)
    append(log)
    assert [segment.blocks for segment in log.view.segments] == [1, 2, 1]


def test_a_roll_on_request_needs_a_block(tmp_path: Path) -> None:
    log = open_here(tmp_path)
    log.roll()
    assert len(log.view.segments) == 1
    append(log)
    log.roll()
    log.roll()
    assert [segment.number for segment in log.view.segments] == [1, 2]
    append(log)
    assert values(log.view) == values(read_here(tmp_path)) == written(range(4))


def test_a_roll_syncs_the_old_segment_and_the_mark_follows_it(tmp_path: Path) -> None:
    """Else who reads beside the writer would take what is in the new segment for durable before it is."""
    disk = WatchedDisk()
    log = open_here(tmp_path, disk=disk)
    append(log, 3)
    log.write([batch(6)])
    assert disk.syncs[names.segment_name(1)] >= 4
    mark = mark_format.decode((tmp_path / names.MARK).read_bytes())
    assert mark is not None
    assert (mark.segment, mark.end_offset) == (2, 6)
    assert values(read_here(tmp_path)) == written(range(6))


def test_the_index_of_a_growing_segment_is_written_out_now_and_then(tmp_path: Path) -> None:
    log = open_here(tmp_path, replace(WIDE, index_persist_bytes=30 * KIB))
    for _ in range(2):
        log.write([in_kib(10)])
        log.sync()
        assert not index_path(tmp_path, 1).exists()
    log.write([in_kib(10)])
    log.sync()
    assert index_path(tmp_path, 1).exists()


# --- a full disk ------------------------------------------------------------------------------------------------------


def test_appends_are_refused_before_the_disk_is_full_and_go_on_when_it_is_not(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, replace(SMALL, disk_reserve_bytes=MIB), disk=disk)
    append(log)
    files = snapshot(tmp_path)
    disk.free = MIB + 100
    (refused,) = log.write([batch(2)])
    assert isinstance(refused, DiskFull)
    assert str(MIB + 100) in str(refused)
    assert snapshot(tmp_path) == files
    assert values(log.view) == written(range(2))
    assert log.failure is None
    disk.free = 2 * MIB
    append(log)
    assert values(log.view) == written(range(4))


def test_a_write_that_finds_no_space_leaves_nothing_and_appends_go_on_later(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, disk=disk)
    append(log)
    size = segment_path(tmp_path, 1).stat().st_size
    disk.failing = {("write", "1.log"): NO_SPACE}
    assert errors(log.write([batch(2), batch(4)])) == [DiskFull, DiskFull]
    assert segment_path(tmp_path, 1).stat().st_size == size
    disk.failing = {}
    append(log, 2)
    log.close()
    assert values(read_here(tmp_path)) == written(range(6))


@pytest.mark.parametrize("operation", ["open", "write", "sync"])
def test_a_roll_that_finds_no_space_keeps_what_was_written_and_works_later(operation: str, tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, disk=disk)
    append(log, 2)
    disk.failing = {(operation, "2.log"): NO_SPACE}
    assert errors(log.write([batch(4), batch(6), batch(8)])) == [Appended, DiskFull, DiskFull]
    log.sync()
    assert values(log.view) == values(read_here(tmp_path)) == written(range(6))
    assert log.failure is None
    disk.failing = {}
    append(log, 2)
    log.close()
    assert values(read_here(tmp_path)) == written(range(10))
    assert verify_log(DISK, str(tmp_path)).sound


def test_an_index_that_finds_no_space_is_done_without(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, disk=disk)
    disk.failing = {("write", ".idx.tmp"): NO_SPACE}
    append(log, 6)
    log.close()
    assert not index_path(tmp_path, 1).exists()
    disk.failing = {}
    again = open_here(tmp_path)
    assert values(again.view) == written(range(12))
    again.close()


# --- failures ---------------------------------------------------------------------------------------------------------

BROKEN = [("write", "1.log"), ("sync", "1.log"), ("free_bytes", ""), ("write", names.MARK)]
BROKEN_AT_ROLL = [("open", "2.log"), ("write", "2.log"), ("sync", "2.log"), ("write", "1.idx.tmp"), ("open", ".tmp")]


@pytest.mark.parametrize("fault", BROKEN + BROKEN_AT_ROLL)
def test_a_failure_is_final_and_reads_go_on(fault: tuple[str, str], tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, disk=disk)
    append(log, 1 if fault in BROKEN else 3)
    durable = log.view.end_offset
    disk.failing = {fault: IO_ERROR}
    results = log.write([batch(durable)])
    if log.failure is None:
        with pytest.raises(StorageFailed, match="errno 5"):
            log.sync()
    else:
        assert errors(results) == [StorageFailed]
    disk.failing = {}
    assert errors(log.write([batch(durable)])) == [StorageFailed]
    for operation in (log.sync, log.roll):
        with pytest.raises(StorageFailed):
            operation()
    assert values(log.view) == written(range(durable))
    log.close()
    again = open_here(tmp_path)
    assert values(again.view).items() >= written(range(durable)).items()
    append(again)
    again.close()
    assert verify_log(DISK, str(tmp_path)).sound


def test_a_failed_sync_is_not_tried_again(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, disk=disk)
    log.write([batch(0)])
    disk.failing = {("sync", "1.log"): IO_ERROR}
    with pytest.raises(StorageFailed):
        log.sync()
    disk.failing = {}
    before = disk.syncs[names.segment_name(1)]
    with pytest.raises(StorageFailed):
        log.sync()
    log.close()
    assert disk.syncs[names.segment_name(1)] == before
    mark = mark_format.decode((tmp_path / names.MARK).read_bytes())
    assert mark is not None
    assert not mark.clean
    assert mark.end_offset == 0


def test_a_closed_log_takes_nothing_and_is_closed_once(tmp_path: Path) -> None:
    log = open_here(tmp_path)
    append(log)
    log.close()
    log.close()
    assert errors(log.write([batch(2)])) == [Closed]
    with pytest.raises(Closed):
        log.sync()
    assert values(log.view) == written(range(2))


def test_a_close_that_fails_lets_go_of_the_lock(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, disk=disk)
    log.write([batch(0)])
    disk.failing = {("sync", "1.log"): IO_ERROR}
    with pytest.raises(StorageFailed):
        log.close()
    disk.failing = {}
    open_here(tmp_path).close()
