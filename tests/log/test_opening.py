"""Opening a log: as its one owner, and beside an owner that goes on writing, rolling and trimming."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flowmesh.base.errors import AlreadyOpen, NotFound, OffsetOutOfRange
from flowmesh.base.limits import KIB, MIB, SEGMENT_BYTES_MIN
from flowmesh.format import columns, names
from flowmesh.format.segment import SIZE
from flowmesh.log.findings import Action, Finding, Where
from flowmesh.log.open_log import look, open_log, read_log
from flowmesh.log.retention import Retention
from flowmesh.log.verify import verify_log
from flowmesh.sim.clock import SimClock
from tests.log.damage import (
    CHAIN,
    DISK,
    OTHER_CHAIN,
    SMALL,
    about,
    append,
    batch,
    open_here,
    read_here,
    restore,
    segment_path,
    snapshot,
    values,
    written,
)
from tests.log.watched import WatchedDisk

EVERYTHING = Retention(size_bytes=0)
HEADER_READ = (0, SIZE)


def reopened(directory: Path) -> list[tuple[int, int]]:
    """What of the segments the owner reads when it opens the log."""
    disk = WatchedDisk()
    open_here(directory, disk=disk).close()
    return disk.read_from(".log")


# --- the owner --------------------------------------------------------------------------------------------------------


def test_a_log_has_one_owner_at_a_time(tmp_path: Path) -> None:
    log = open_here(tmp_path)
    with pytest.raises(AlreadyOpen, match="another process"):
        open_here(tmp_path)
    append(log)
    log.close()
    open_here(tmp_path).close()


def test_an_opening_that_is_refused_lets_go_of_the_lock(tmp_path: Path) -> None:
    open_here(tmp_path).close()
    chain = (tmp_path / names.CHAIN).read_bytes()
    (tmp_path / names.CHAIN).write_bytes(b"")
    with pytest.raises(Exception, match="damaged"):
        open_here(tmp_path)
    (tmp_path / names.CHAIN).write_bytes(chain)
    open_here(tmp_path).close()


def test_where_there_is_no_log_nothing_is_made_unless_asked(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "log"
    for way_in in (read_here, lambda path: look(DISK, str(path)), lambda path: verify_log(DISK, str(path))):
        with pytest.raises(NotFound, match="there is no log"):
            way_in(missing)
    with pytest.raises(NotFound):
        open_log(DISK, str(missing), SimClock(), SMALL)
    assert not missing.parent.exists()
    with pytest.raises(NotFound):
        open_log(DISK, str(tmp_path), SimClock(), SMALL)
    assert set(snapshot(tmp_path)) <= {names.LOCK}


def test_the_identity_of_a_log_is_the_one_it_was_made_with(tmp_path: Path) -> None:
    open_here(tmp_path).close()
    again = open_log(DISK, str(tmp_path), SimClock(), SMALL, create=OTHER_CHAIN)
    assert again.view.chain == CHAIN
    again.close()


def test_a_log_that_was_never_written_to_opens_again(tmp_path: Path) -> None:
    open_here(tmp_path).close()
    assert values(read_here(tmp_path)) == {}
    log = open_here(tmp_path)
    assert log.notes == ()
    append(log)
    assert values(log.view) == written(range(2))
    log.close()


def test_a_directory_and_its_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "parent" / "log"
    append(open_here(directory))
    assert {path.stat().st_mode & 0o777 for path in (directory, directory.parent)} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}


def test_after_a_clean_end_no_entry_is_read(tmp_path: Path) -> None:
    log = open_here(tmp_path)
    append(log, 10)
    log.close()
    assert reopened(tmp_path) == [HEADER_READ] * 4
    log = open_here(tmp_path)
    append(log)
    files = snapshot(tmp_path)
    log.close()
    assert reopened(tmp_path) == [HEADER_READ] * 4
    restore(tmp_path, files)
    assert len(reopened(tmp_path)) > 4, "after a kill there is something to look at, or this proves nothing"


def test_after_a_kill_only_what_the_index_does_not_cover_is_read(tmp_path: Path) -> None:
    options = replace(SMALL, segment_bytes=16 * MIB, segment_records=10**6, index_persist_bytes=4 * MIB)
    log = open_here(tmp_path, options)
    for _ in range(50):
        log.write([columns.encode([bytes(100 * KIB)])])
        log.sync()
    files = snapshot(tmp_path)
    log.close()
    restore(tmp_path, files)
    disk = WatchedDisk()
    again = open_here(tmp_path, options, disk=disk)
    assert again.view.end_offset == 50
    assert min(position for position, length in disk.read_from(".log") if length != SIZE) >= 4 * MIB
    again.close()


def test_options_may_change_from_opening_to_opening(tmp_path: Path) -> None:
    log = open_here(tmp_path)
    append(log, 2)
    log.close()
    log = open_here(tmp_path, replace(SMALL, segment_records=10**6, segment_bytes=SEGMENT_BYTES_MIN))
    append(log, 8)
    assert [segment.records for segment in log.view.segments] == [20]
    log.close()
    log = open_here(tmp_path)
    append(log)
    assert [segment.records for segment in log.view.segments] == [20, 2]
    assert values(log.view) == written(range(22))
    log.close()


def test_many_segments_open_and_serve_alike_with_and_without_their_indexes(tmp_path: Path) -> None:
    one = replace(SMALL, segment_records=2)
    log = open_here(tmp_path, one)
    append(log, 60)
    log.close()
    for path in tmp_path.glob("*.idx"):
        path.unlink()
    assert values(read_here(tmp_path)) == written(range(120))
    again = open_here(tmp_path, one)
    assert values(again.view) == written(range(120))
    assert len(about(again.notes, Where.INDEX_FILE, Finding.MISSING, Action.REBUILD)) == 60
    again.close()
    again = open_here(tmp_path, one)
    assert again.notes == ()
    again.close()


# --- who reads beside the owner ---------------------------------------------------------------------------------------


def test_who_reads_beside_the_writer_sees_what_is_durable_at_every_moment(tmp_path: Path) -> None:
    log = open_here(tmp_path)
    for offset in range(0, 40, 2):
        log.write([batch(offset)])
        view = read_here(tmp_path)
        assert values(view) == written(range(offset)), "the block that is on its way is not shown"
        assert view.damage == ()
        log.sync()
        assert values(read_here(tmp_path)) == written(range(offset + 2))


def test_who_reads_changes_nothing(tmp_path: Path) -> None:
    log = open_here(tmp_path)
    append(log, 4)
    log.write([batch(8)])
    (tmp_path / "floor.json.tmp").write_bytes(b"half")
    files = snapshot(tmp_path)
    values(read_here(tmp_path))
    assert snapshot(tmp_path) == files


def test_a_view_from_before_a_roll_and_a_trim_stays_what_it_was(tmp_path: Path) -> None:
    log = open_here(tmp_path)
    append(log, 5)
    view = read_here(tmp_path)
    assert values(view) == written(range(10))
    append(log, 5)
    log.roll()
    assert values(view) == written(range(10))
    log.trim(EVERYTHING)
    assert values(view) == written(range(10)), "its files are still open"
    assert values(read_here(tmp_path)) == {}
    with pytest.raises(OffsetOutOfRange):
        read_here(tmp_path).read(0)


class Meddling(WatchedDisk):
    """Lets the owner do something right before a chosen step of somebody who reads."""

    def __init__(self, act: Callable[[], None], steps: int) -> None:
        super().__init__()
        self.act = act
        self.steps = steps

    def strike(self, operation: str, name: str) -> None:
        super().strike(operation, name)
        if operation in ("open", "names"):
            self.steps -= 1
            if self.steps == 0:
                self.act()


def steps_of_a_survey(directory: Path) -> int:
    disk = Meddling(lambda: None, 0)
    read_log(disk, str(directory))
    return -disk.steps


@pytest.mark.parametrize("what", ["trim", "roll", "append", "roll and append", "append and trim", "roll and write"])
def test_an_owner_that_works_during_any_step_of_an_opening_confuses_nobody(what: str, tmp_path: Path) -> None:
    probe = open_here(tmp_path / "probe")
    append(probe, 8)
    steps = steps_of_a_survey(tmp_path / "probe")
    assert steps > 8
    for step in range(1, steps + 1):
        log = open_here(tmp_path / str(step))
        append(log, 8)

        def act() -> None:
            if "roll" in what:
                log.roll()  # noqa: B023  (it is called within this round)
            if "write" in what:
                log.write([batch(16)])  # noqa: B023
            if "append" in what:
                append(log, 4)  # noqa: B023
            if "trim" in what:
                log.trim(EVERYTHING)  # noqa: B023

        disk = Meddling(act, step)
        view = read_log(disk, log.directory)
        assert disk.steps <= 0
        assert view.damage == ()
        try:
            found = values(view)
        except OffsetOutOfRange:
            assert "trim" in what
            found = values(read_here(log.directory))
        last = max(found, default=15)
        assert 15 <= last <= (23 if "append" in what else 15), "what no sync covers yet is not shown"
        assert found == written(range(min(found, default=16), last + 1))
        log.close()


def test_a_segment_that_is_just_being_made_is_not_there_yet(tmp_path: Path) -> None:
    log = open_here(tmp_path)
    append(log, 3)
    for data in (b"", b"FMSEGMT\n", bytes(SIZE)):
        segment_path(tmp_path, 2).write_bytes(data)
        assert values(read_here(tmp_path)) == written(range(6))
        assert verify_log(DISK, str(tmp_path)).sound
    segment_path(tmp_path, 2).unlink()
    append(log)
    assert values(read_here(tmp_path)) == written(range(8))
