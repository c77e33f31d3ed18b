"""Group commit: one write and one sync for all that waits, answers in order, and failures that stay with their log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flowmesh.base.durability import ALWAYS, BATCH, Durability
from flowmesh.base.errors import DiskFull, StorageFailed
from flowmesh.format import names
from flowmesh.format.batch import Batch
from flowmesh.log.appender import Appender
from flowmesh.log.commit import Committed, Result, Submission, commit, prepare, sync, sync_one_by_one
from flowmesh.log.sealing import Appended
from tests.log.damage import SMALL, batch, open_here, values, written
from tests.log.watched import IO_ERROR, NO_SPACE, WatchedDisk

FIRST = names.segment_name(1)
INTERVAL = Durability.parse("interval:50")


class Log:
    """A log with its disk, and every answer in the order in which it came."""

    def __init__(self, directory: Path, durability: Durability = BATCH) -> None:
        self.disk = WatchedDisk()
        options = replace(SMALL, segment_records=10**6, durability=durability)
        self.appender: Appender = open_here(directory, options, disk=self.disk)
        self.answers: list[list[Result]] = []
        self.disk.syncs.clear()

    def submission(self, *counts: int) -> Submission:
        group = [batch(0, count) for count in counts]
        return Submission(self.appender, group, lambda results: self.answers.append(list(results)))

    @property
    def offsets(self) -> list[list[int]]:
        return [[result.base_offset for result in results] for results in self.answers]


def answer(*submissions: Submission) -> None:
    for done, results in commit(submissions):
        done(results)


def test_all_that_waits_shares_one_sync(tmp_path: Path) -> None:
    log = Log(tmp_path)
    answer(log.submission(2), log.submission(1, 1), log.submission(), log.submission(3))
    assert log.disk.syncs == {FIRST: 1}
    assert log.offsets == [[0], [2, 3], [], [4]]
    assert log.appender.view.end_offset == 7


def test_always_gives_each_append_a_sync_of_its_own(tmp_path: Path) -> None:
    log = Log(tmp_path, ALWAYS)
    answer(log.submission(2), log.submission(1, 1))
    assert log.disk.syncs == {FIRST: 3}
    assert log.offsets == [[0], [2, 3]]
    assert log.answers[0][0].durability == ALWAYS


def test_interval_answers_before_the_sync_and_says_so(tmp_path: Path) -> None:
    log = Log(tmp_path, INTERVAL)
    answer(log.submission(2))
    assert log.disk.syncs == {}
    assert log.answers[0][0].durability.loss_window_ms == 50
    assert log.appender.dirty
    assert log.appender.view.end_offset == 0
    sync([log.appender], sync_one_by_one)
    assert log.disk.syncs == {FIRST: 1}
    assert log.appender.view.end_offset == 2


def test_nothing_is_answered_before_its_sync(tmp_path: Path) -> None:
    log, other = Log(tmp_path / "log"), Log(tmp_path / "other")
    seen: list[tuple[int, int]] = []

    def sync_files(logs: Sequence[Committed]) -> None:
        seen.append((len(logs), len(log.answers)))
        sync_one_by_one(logs)

    completions = commit([log.submission(2), other.submission(2)], sync_files)
    assert seen == [(2, 0)]
    assert len(completions) == 2
    assert log.disk.syncs == other.disk.syncs == {FIRST: 1}


def test_what_waits_is_prepared_in_order_up_to_a_bound_but_not_where_each_append_is_alone(tmp_path: Path) -> None:
    log, other, alone = Log(tmp_path / "log"), Log(tmp_path / "other"), Log(tmp_path / "alone", ALWAYS)
    told: list[tuple[int, list[int]]] = []

    def listen(number: int, each: Log) -> None:
        def prepare(group: Sequence[Batch]) -> None:
            told.append((number, [batch.header.count for batch in group]))

        each.appender.prepare = prepare  # type: ignore[method-assign]

    listen(0, log)
    listen(1, other)
    listen(2, alone)
    waiting = [log.submission(1, 2), alone.submission(3), other.submission(4), log.submission(5), other.submission(6)]
    prepare(waiting, sum(each.size for each in waiting[:4]))
    assert told == [(0, [1, 2, 5]), (1, [4])]
    other.appender.poison("a test")
    told.clear()
    prepare(waiting)
    assert told == [(0, [1, 2, 5])]


def test_a_failed_sync_fails_all_that_it_covers_and_no_other_log(tmp_path: Path) -> None:
    broken, sound = Log(tmp_path / "broken"), Log(tmp_path / "sound")
    broken.disk.failing = {("sync", FIRST): IO_ERROR}
    answer(broken.submission(1, 1), sound.submission(2), broken.submission(1))
    assert [[type(result) for result in results] for results in broken.answers] == [
        [StorageFailed] * 2,
        [StorageFailed],
    ]
    assert sound.offsets == [[0]]
    assert broken.appender.view.end_offset == 0
    broken.disk.failing = {}
    answer(broken.submission(1), sound.submission(1))
    assert isinstance(broken.answers[-1][0], StorageFailed)
    assert sound.offsets == [[0], [2]]


def test_a_failed_sync_of_always_fails_that_append_and_all_after_it(tmp_path: Path) -> None:
    log = Log(tmp_path, ALWAYS)
    answer(log.submission(1))
    log.disk.failing = {("sync", FIRST): IO_ERROR}
    answer(log.submission(1, 1), log.submission(1))
    assert [type(result) for results in log.answers for result in results] == [Appended] + [StorageFailed] * 3


def test_what_was_written_before_the_disk_was_full_is_kept_and_answered(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_here(tmp_path, disk=disk)
    disk.failing = {("write", names.segment_name(2)): NO_SPACE}
    answers: list[Result] = []
    answer(
        Submission(log, [batch(0), batch(2)], answers.extend),
        Submission(log, [batch(4), batch(6)], answers.extend),
    )
    assert [type(result) for result in answers] == [Appended] * 3 + [DiskFull]
    assert values(log.view) == written(range(6))
