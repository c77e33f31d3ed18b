"""Retention: by age and by bytes, in whole segments, never below a hold, and the chain keeps its anchor."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from flowmesh.base.errors import BadRequest, DiskFull, StorageFailed
from flowmesh.format import checkpoint as checkpoint_format
from flowmesh.format import floor as floor_format
from flowmesh.format import names
from flowmesh.format.segment import SIZE
from flowmesh.log.appender import Appender
from flowmesh.log.findings import Finding
from flowmesh.log.retention import Retention
from flowmesh.log.verify import verify_log
from flowmesh.sim.clock import SimClock
from flowmesh.sim.disk import SimDisk
from tests.log import damage
from tests.log.damage import DISK, append, open_here, read_here, segment_path, snapshot, values, written
from tests.log.watched import IO_ERROR, NO_SPACE, WatchedDisk

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SEGMENT_BYTES = 792
HOUR = 3_600_000_000_000


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def log(tmp_path: Path, clock: SimClock) -> Appender:
    """[0, 24) in four segments, one an hour; the fourth is active."""
    log = open_here(tmp_path / "log", clock=clock)
    for _ in range(4):
        append(log, 3)
        clock.advance(HOUR)
    return log


def numbers(log: Appender) -> list[int]:
    return [segment.number for segment in log.view.segments]


@pytest.mark.parametrize(
    "size_bytes, left",
    [(4 * SEGMENT_BYTES, 4), (4 * SEGMENT_BYTES - 1, 3), (3 * SEGMENT_BYTES, 3), (1, 1), (0, 1)],
)
def test_the_oldest_segments_go_until_the_rest_fits(size_bytes: int, left: int, log: Appender) -> None:
    assert log.trim(Retention(size_bytes=size_bytes)) == 4 - left
    assert numbers(log) == [1, 2, 3, 4][4 - left :]
    assert values(log.view) == written(range(6 * (4 - left), 24))
    assert log.view.start_offset == 6 * (4 - left)


@pytest.mark.parametrize("age_ns, left", [(5 * HOUR, 4), (4 * HOUR, 4), (4 * HOUR - 1, 3), (2 * HOUR, 2), (0, 1)])
def test_segments_whose_last_block_is_too_old_go(age_ns: int, left: int, log: Appender) -> None:
    assert log.trim(Retention(age_ns=age_ns)) == 4 - left
    assert numbers(log) == [1, 2, 3, 4][4 - left :]


def test_without_limits_nothing_goes(log: Appender) -> None:
    files = snapshot(Path(log.directory))
    assert log.trim(Retention()) == 0
    assert snapshot(Path(log.directory)) == files


@pytest.mark.parametrize("hold, left", [(0, 4), (5, 4), (6, 3), (17, 2), (18, 1), (24, 1)])
def test_nothing_at_or_above_a_hold_goes(hold: int, left: int, log: Appender) -> None:
    log.holds = {"paused group": 24, "replay": hold}
    assert log.trim(Retention(size_bytes=0)) == 4 - left
    assert values(log.view, hold) == written(range(hold - hold % 2, 24))
    log.holds = {}
    log.trim(Retention(size_bytes=0))
    assert numbers(log) == [4]


@pytest.mark.parametrize("field", ["age_ns", "size_bytes"])
def test_a_negative_limit_is_refused(field: str) -> None:
    with pytest.raises(BadRequest, match=field):
        Retention(**{field: -1})


def test_a_roll_lets_the_whole_past_go_and_offsets_go_on(log: Appender) -> None:
    log.roll()
    log.trim(Retention(size_bytes=0))
    assert (log.view.start_offset, log.view.end_offset) == (24, 24)
    append(log)
    log.close()
    again = open_here(log.directory)
    assert values(again.view) == written(range(24, 26))
    again.close()


def test_the_floor_keeps_the_anchor_of_the_chain(log: Appender) -> None:
    before = log.view.closed[1]
    log.trim(Retention(size_bytes=2 * SEGMENT_BYTES))
    files = snapshot(Path(log.directory))
    assert sorted(damage.segments_of(files)) == [names.segment_name(3), names.segment_name(4)]
    floor = floor_format.decode(files[names.FLOOR])
    assert (floor.first_segment, floor.start_offset) == (3, 12)
    assert floor.previous_segment_hash == before.header.hash.hex()
    assert floor.previous_block_hash == before.last_block_hash.hex()
    log.close()
    again = open_here(log.directory)
    assert again.notes == ()
    assert values(again.view) == written(range(12, 24))
    again.close()


def test_a_trimmed_log_verifies_also_against_checkpoints_at_and_above_its_floor(log: Appender) -> None:
    signed = {
        end: checkpoint_format.sign(KEY, log.view.chain.hash, end, segment.last_block_hash, 0)
        for end, segment in ((6 * row + 6, segment) for row, segment in enumerate(log.view.segments))
    }
    log.trim(Retention(size_bytes=2 * SEGMENT_BYTES))
    assert verify_log(DISK, log.directory).sound
    faults = {end: verify_log(DISK, log.directory, checkpoint=one).checkpoint_fault for end, one in signed.items()}
    assert {end for end, fault in faults.items() if fault is None} == {12, 18, 24}
    assert "trimmed" in (faults[6] or "")


def test_a_quarantined_segment_is_kept_as_long_as_what_stands_before_it(tmp_path: Path) -> None:
    """Its own end is unknown, so only a later segment that may go says that it may go as well."""
    clock = SimClock()
    log = open_here(tmp_path, clock=clock)
    for _ in range(4):
        append(log, 3)
        clock.advance(HOUR)
    log.close()
    damage.flip(segment_path(tmp_path, 2), SIZE - 1)
    files = snapshot(tmp_path)
    log = open_here(tmp_path, clock=clock)
    log.holds = {"repair": 6}
    assert log.trim(Retention(size_bytes=0)) == 0
    log.holds = {}
    assert log.trim(Retention(age_ns=7 * HOUR // 2)) == 0
    log.close()
    assert damage.segments_of(snapshot(tmp_path)) == damage.segments_of(files)
    log = open_here(tmp_path, clock=clock)
    assert [item.finding for item in log.view.damage] == [Finding.DAMAGED]
    assert log.trim(Retention(size_bytes=0)) == 2
    assert log.view.damage == ()
    assert values(log.view) == written(range(18, 24))
    log.close()
    open_here(tmp_path).close()
    assert list(damage.segments_of(snapshot(tmp_path))) == [names.segment_name(4)]


def test_a_trim_that_finds_no_space_for_its_floor_removes_nothing_and_works_later(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, disk=disk)
    append(log, 12)
    disk.failing = {("write", "floor.json.tmp"): NO_SPACE}
    with pytest.raises(DiskFull):
        log.trim(Retention(size_bytes=0))
    assert values(log.view) == values(read_here(tmp_path)) == written(range(24))
    disk.failing = {}
    assert log.trim(Retention(size_bytes=0)) == 3
    log.close()


def test_a_trim_that_fails_poisons_the_log_and_loses_nothing(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, disk=disk)
    append(log, 12)
    disk.failing = {("sync", "floor.json.tmp"): IO_ERROR}
    with pytest.raises(StorageFailed):
        log.trim(Retention(size_bytes=0))
    with pytest.raises(StorageFailed):
        log.sync()
    log.close()
    disk.failing = {}
    again = open_here(tmp_path, disk=disk)
    assert values(again.view) == written(range(24))
    again.close()


def test_a_disk_that_is_full_to_the_last_byte_can_still_be_trimmed() -> None:
    disk = SimDisk(7)
    log = open_here("/log", disk=disk)
    append(log, 12)
    used = sum(len(content) for content in disk.files().values())
    disk.set_capacity(used)
    assert disk.free_bytes("/log") == 0
    assert log.trim(Retention(size_bytes=0)) == 3
    assert values(log.view) == written(range(18, 24))
    (after,) = append(log, 1)
    assert after.base_offset == 24
    log.close()
    assert verify_log(disk, "/log").sound
