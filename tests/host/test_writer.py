"""The writer thread: what gathers while it is busy, when it syncs, and that nobody's failure is another's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from flowmesh.base.durability import ALWAYS, BATCH, Durability
from flowmesh.base.errors import Closed, FlowMeshError, StorageFailed
from flowmesh.base.limits import HALVED_BYTES_MIN, KIB, MIB, PREPARE_BYTES_MIN
from flowmesh.format import columns, names
from flowmesh.format.batch import Batch
from flowmesh.host import writer as writer_module
from flowmesh.host.writer import WriterThread, deliver_here
from flowmesh.log.appender import Appender
from flowmesh.log.commit import Completion
from flowmesh.log.retention import Retention
from flowmesh.log.sealing import Appended
from flowmesh.sim.clock import SimClock
from tests.log.damage import SMALL, batch, open_here, read_here, values, written
from tests.log.watched import IO_ERROR, WatchedDisk

FIRST = names.segment_name(1)
MINUTE = Durability.parse("interval:60000")
MINUTE_NS = 60_000_000_000
PATIENCE_S = 30
"""How long a test waits for what must come. It passes long before; only a failure takes so long."""


class Gate:
    """Holds every sync of a segment until it is opened, and tells when the first one has come."""

    def __init__(self, disk: WatchedDisk) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        disk.on_sync = self.hold

    def hold(self, name: str) -> None:
        if name.endswith(".log"):
            self.reached.set()
            assert self.opened.wait(PATIENCE_S)


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def writer(clock: SimClock) -> Iterator[WriterThread]:
    writer = WriterThread(clock)
    yield writer
    writer.close()


def make(directory: Path, disk: WatchedDisk, durability: Durability = BATCH) -> Appender:
    log = open_here(directory, replace(SMALL, segment_records=10**6, durability=durability), disk=disk)
    disk.syncs.clear()
    return log


def offsets(*futures: Future[Sequence[object]]) -> list[int]:
    return [
        result.base_offset for future in futures for result in future.result(PATIENCE_S) if isinstance(result, Appended)
    ]


def settle(writer: WriterThread) -> None:
    """Returns when the thread has gone through a whole round since."""
    for _ in range(2):
        writer.call(lambda: None).result(PATIENCE_S)


def test_what_comes_during_a_sync_shares_the_next_one(tmp_path: Path, disk: WatchedDisk, writer: WriterThread) -> None:
    log = make(tmp_path, disk)
    gate = Gate(disk)
    first = writer.append(log, [batch(0)])
    assert gate.reached.wait(PATIENCE_S)
    rest = [writer.append(log, [batch(offset)]) for offset in range(2, 42, 2)]
    assert not any(future.done() for future in (first, *rest)), "nothing is acknowledged before its sync"
    gate.opened.set()
    assert offsets(first, *rest) == list(range(0, 42, 2))
    assert disk.syncs == {FIRST: 2}
    assert values(log.view) == written(range(42))


def test_what_waits_when_a_sync_begins_is_sealed_beside_it(
    tmp_path: Path, disk: WatchedDisk, writer: WriterThread
) -> None:
    log = open_here(tmp_path, replace(SMALL, segment_records=10**6, segment_bytes=MIB), disk=disk)
    disk.syncs.clear()
    gate, large = Gate(disk), columns.encode([bytes(PREPARE_BYTES_MIN)])
    write, futures = log.write, list[Future[Sequence[object]]]()

    def write_and_send_more(group: Sequence[Batch]) -> list[Appended | FlowMeshError]:
        log.write = write  # type: ignore[method-assign]
        futures.append(writer.append(log, [large]))
        return write(group)

    log.write = write_and_send_more  # type: ignore[method-assign]
    first = writer.append(log, [batch(0, 1)])
    assert gate.reached.wait(PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while log._ahead is None:
        assert time.monotonic() < deadline, "nothing is sealed while the sync is under way"
        time.sleep(0.001)
    sealed = log._ahead.run.appended
    assert log.view.end_offset == 0
    gate.opened.set()
    assert offsets(first, *futures) == [0, 1]
    assert list(futures[0].result()) == sealed
    assert disk.syncs[FIRST] == 2


@pytest.mark.parametrize("sync_s, commits", [(0, 2), (1, 1)])
def test_half_of_much_is_left_for_the_next_commit_unless_a_sync_takes_longer_than_sealing_all_of_it(
    tmp_path: Path, disk: WatchedDisk, writer: WriterThread, clock: SimClock, sync_s: int, commits: int
) -> None:
    log = open_here(tmp_path, replace(SMALL, segment_records=10**6, segment_bytes=64 * MIB), disk=disk)
    disk.on_sync = lambda _name: clock.advance(sync_s * 1_000_000_000)
    assert offsets(writer.append(log, [batch(0, 1)])) == [0]
    disk.syncs.clear()
    held = threading.Event()
    writer.call(lambda: held.wait(PATIENCE_S) and None)
    waiting = [writer.append(log, [columns.encode([bytes(HALVED_BYTES_MIN // 2)])]) for _ in range(4)]
    called = writer.call(lambda: log.view.end_offset)
    last = writer.append(log, [batch(9, 1)])
    held.set()
    assert offsets(*waiting, last) == [1, 2, 3, 4, 5]
    assert called.result(PATIENCE_S) == 5, "a call comes behind all that was submitted before it"
    assert disk.syncs[FIRST] == commits + 1


def test_nothing_is_prepared_behind_a_call_that_may_change_what_it_promises(
    tmp_path: Path, disk: WatchedDisk, writer: WriterThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_here(tmp_path, replace(SMALL, segment_records=10**6, segment_bytes=MIB), disk=disk)
    large = columns.encode([bytes(PREPARE_BYTES_MIN)])
    prepared: list[int] = []
    monkeypatch.setattr(log, "prepare", lambda group: prepared.append(len(group)))
    held = threading.Event()

    def alter() -> None:
        log.options = replace(log.options, durability=ALWAYS)

    writer.call(lambda: held.wait(PATIENCE_S) and None)
    before = writer.append(log, [batch(0, 1)])
    writer.call(alter)
    after = writer.append(log, [large])
    held.set()
    promised = [future.result(PATIENCE_S)[0].durability for future in (before, after)]
    assert promised == [BATCH, ALWAYS]
    assert prepared == []


def test_what_cannot_be_prepared_is_written_all_the_same(
    tmp_path: Path, disk: WatchedDisk, writer: WriterThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make(tmp_path, disk)
    large = columns.encode([bytes(PREPARE_BYTES_MIN)])
    tries: list[int] = []
    rest: list[Future[Sequence[object]]] = []
    write = log.write

    def write_and_send_more(group: Sequence[Batch]) -> list[Appended | FlowMeshError]:
        monkeypatch.setattr(log, "write", write)
        rest.extend(writer.append(log, [each]) for each in (batch(1, 1), large, large))
        return write(group)

    def prepare(group: Sequence[Batch]) -> None:
        tries.append(len(group))
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(log, "write", write_and_send_more)
    monkeypatch.setattr(log, "prepare", prepare)
    first = writer.append(log, [batch(0, 1)])
    assert offsets(first) == [0]
    assert offsets(*rest) == [1, 2, 3]
    assert tries == [3]


def test_always_syncs_each_append_alone(tmp_path: Path, disk: WatchedDisk, writer: WriterThread) -> None:
    log = make(tmp_path, disk, ALWAYS)
    gate = Gate(disk)
    futures = [writer.append(log, [batch(0), batch(2)])]
    assert gate.reached.wait(PATIENCE_S)
    futures += [writer.append(log, [batch(offset)]) for offset in range(4, 10, 2)]
    gate.opened.set()
    assert offsets(*futures) == [0, 2, 4, 6, 8]
    assert disk.syncs == {FIRST: 5}


def test_interval_acknowledges_first_and_syncs_when_its_time_has_come(
    tmp_path: Path, disk: WatchedDisk, writer: WriterThread, clock: SimClock
) -> None:
    log = make(tmp_path, disk, MINUTE)
    assert offsets(writer.append(log, [batch(0)])) == [0]
    clock.advance(MINUTE_NS // 2)
    assert offsets(writer.append(log, [batch(2)])) == [2]
    clock.advance(MINUTE_NS // 2 - 1)
    settle(writer)
    assert disk.syncs == {}
    assert log.view.end_offset == 0
    clock.advance(1)
    settle(writer)
    assert disk.syncs == {FIRST: 1}, "the window counts from the oldest append that is not synced"
    assert values(log.view) == written(range(4))
    clock.advance(2 * MINUTE_NS)
    settle(writer)
    assert disk.syncs == {FIRST: 1}, "what is synced is not synced again"


def test_an_interval_that_is_over_needs_nobody_to_come_by(tmp_path: Path, disk: WatchedDisk) -> None:
    clock = SimClock(tick_ns=MINUTE_NS)
    writer = WriterThread(clock)
    log = make(tmp_path, disk, MINUTE)
    synced = threading.Event()
    disk.on_sync = lambda name: synced.set()
    assert offsets(writer.append(log, [batch(0)])) == [0]
    assert synced.wait(PATIENCE_S)
    writer.close()


def test_several_logs_are_synced_side_by_side(tmp_path: Path, writer: WriterThread) -> None:
    """Each sync waits for the other one, so that one after the other would never end."""
    meeting = threading.Barrier(2)
    disks = [WatchedDisk(), WatchedDisk()]
    logs = [make(tmp_path / str(number), disk) for number, disk in enumerate(disks)]
    holding = WatchedDisk()
    blocker = make(tmp_path / "blocker", holding)
    gate = Gate(holding)
    first = writer.append(blocker, [batch(0)])
    assert gate.reached.wait(PATIENCE_S)
    for disk in disks:
        disk.on_sync = lambda _name: void(meeting.wait(PATIENCE_S))
    futures = [writer.append(log, [batch(0)]) for log in logs]
    gate.opened.set()
    assert offsets(first, *futures) == [0, 0, 0]
    assert [disk.syncs for disk in disks] == [{FIRST: 1}] * 2
    assert all(values(log.view) == written(range(2)) for log in logs)


def void(_result: object) -> None:
    """For callbacks whose result nobody wants."""


def test_a_failed_sync_fails_its_log_alone_and_reads_go_on(tmp_path: Path, writer: WriterThread) -> None:
    broken_disk, sound_disk = WatchedDisk(), WatchedDisk()
    broken, sound = make(tmp_path / "broken", broken_disk), make(tmp_path / "sound", sound_disk)
    assert offsets(writer.append(broken, [batch(0)]), writer.append(sound, [batch(0)])) == [0, 0]
    gate = Gate(sound_disk)
    waiting = [writer.append(sound, [batch(2)])]
    assert gate.reached.wait(PATIENCE_S)
    broken_disk.failing = {("sync", FIRST): IO_ERROR}
    failing = [writer.append(broken, [batch(2), batch(4)]), writer.append(broken, [batch(6)])]
    waiting.append(writer.append(sound, [batch(4)]))
    gate.opened.set()
    assert [type(result) for future in failing for result in future.result(PATIENCE_S)] == [StorageFailed] * 3
    assert offsets(*waiting) == [2, 4]
    broken_disk.failing = {}
    (again,) = writer.append(broken, [batch(2)]).result(PATIENCE_S)
    assert isinstance(again, StorageFailed)
    assert values(broken.view) == written(range(2))
    assert offsets(writer.append(sound, [batch(6)])) == [6]


def test_a_roll_that_fails_is_answered_and_the_thread_lives(
    tmp_path: Path, disk: WatchedDisk, writer: WriterThread
) -> None:
    log = open_here(tmp_path / "log", SMALL, disk=disk)
    disk.failing = {("write", ".idx.tmp"): IO_ERROR}
    results = [writer.append(log, [batch(offset)]).result(PATIENCE_S)[0] for offset in range(0, 8, 2)]
    assert [type(result) for result in results] == [Appended, Appended, Appended, StorageFailed]
    other = make(tmp_path / "other", WatchedDisk())
    assert offsets(writer.append(other, [batch(0)])) == [0]


def test_submitters_are_held_back_while_too_much_waits(
    tmp_path: Path, disk: WatchedDisk, writer: WriterThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "WRITER_QUEUE_BYTES_MAX", 10 * KIB)
    log = make(tmp_path, disk)
    gate = Gate(disk)
    futures: list[Future[Sequence[object]]] = []
    most = 0
    done = threading.Event()
    item = columns.encode([bytes(3 * KIB)])

    def submit() -> None:
        nonlocal most
        for _ in range(10):
            futures.append(writer.append(log, [item]))
            most = max(most, writer.queued_bytes)
        done.set()

    submitter = threading.Thread(target=submit)
    submitter.start()
    assert gate.reached.wait(PATIENCE_S)
    assert not done.wait(0.1), "three fit; the others wait for room"
    assert len(futures) <= 6
    gate.opened.set()
    assert done.wait(PATIENCE_S)
    submitter.join()
    assert offsets(*futures) == list(range(10))
    assert 3 * KIB < most <= 10 * KIB
    settle(writer)
    assert writer.queued_bytes == 0


def test_more_than_the_bound_at_once_is_taken_when_nothing_else_waits(
    tmp_path: Path, disk: WatchedDisk, writer: WriterThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "WRITER_QUEUE_BYTES_MAX", KIB)
    log = make(tmp_path, disk)
    assert offsets(writer.append(log, [columns.encode([bytes(3 * KIB)])])) == [0]


def test_a_commit_takes_no_more_than_its_bound(
    tmp_path: Path, disk: WatchedDisk, writer: WriterThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "COMMIT_BYTES_MAX", 4 * KIB)
    log = make(tmp_path, disk)
    gate = Gate(disk)
    futures = [writer.append(log, [columns.encode([bytes(2 * KIB)])])]
    assert gate.reached.wait(PATIENCE_S)
    futures += [writer.append(log, [columns.encode([bytes(2 * KIB)])]) for _ in range(6)]
    gate.opened.set()
    assert offsets(*futures) == list(range(7))
    assert disk.syncs == {FIRST: 4}


def test_a_call_runs_after_what_was_submitted_before_it_and_before_what_came_later(
    tmp_path: Path, disk: WatchedDisk, writer: WriterThread
) -> None:
    log = make(tmp_path, disk)
    gate = Gate(disk)
    before = [writer.append(log, [batch(0)])]
    assert gate.reached.wait(PATIENCE_S)
    before.append(writer.append(log, [batch(2)]))
    ends = writer.call(lambda: (log.view.end_offset, log.written_end))
    rolled = writer.call(log.roll)
    after = writer.append(log, [batch(4)])
    trimmed = writer.call(lambda: log.trim(Retention(size_bytes=0)))
    gate.opened.set()
    assert ends.result(PATIENCE_S) == (4, 4)
    assert rolled.result(PATIENCE_S) is None
    assert trimmed.result(PATIENCE_S) == 1
    assert offsets(*before, after) == [0, 2, 4]
    assert values(log.view) == written(range(4, 6))


def test_what_a_call_raises_goes_to_who_called(tmp_path: Path, writer: WriterThread) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        writer.call(fail).result(PATIENCE_S)
    assert writer.call(lambda: 7).result(PATIENCE_S) == 7


def test_who_gives_up_waiting_does_not_stop_the_others(tmp_path: Path, disk: WatchedDisk, writer: WriterThread) -> None:
    log = make(tmp_path, disk)
    gate = Gate(disk)
    first = writer.append(log, [batch(0)])
    assert gate.reached.wait(PATIENCE_S)
    given_up, ran = writer.append(log, [batch(2)]), threading.Event()
    called = writer.call(ran.set)
    assert first.cancel()
    assert given_up.cancel()
    assert called.cancel()
    last = writer.append(log, [batch(4)])
    gate.opened.set()
    assert offsets(last) == [4]
    assert values(log.view) == written(range(6)), "what was submitted is appended; only the answer is not wanted"
    assert not ran.is_set()


def test_what_nobody_foresaw_fails_the_log_and_not_the_thread(
    tmp_path: Path, disk: WatchedDisk, writer: WriterThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    hit, spared = make(tmp_path / "hit", disk), make(tmp_path / "spared", WatchedDisk())

    def stumble(*_: object) -> None:
        raise RuntimeError("a planted bug")

    monkeypatch.setattr(hit, "write", stumble)
    (result,) = writer.append(hit, [batch(0)]).result(PATIENCE_S)
    assert isinstance(result, StorageFailed)
    assert "RuntimeError" in str(result)
    assert hit.failure is result
    assert offsets(writer.append(spared, [batch(0)])) == [0]


def test_an_answer_that_cannot_be_taken_leaves_the_others_theirs(tmp_path: Path, disk: WatchedDisk) -> None:
    taken: list[object] = []

    def refuse(_results: Sequence[object]) -> None:
        raise RuntimeError("a planted bug")

    deliver_here([Completion(refuse, [1]), Completion(taken.extend, [2])])
    assert taken == [2]


def test_the_answers_of_a_round_are_delivered_in_one_piece(tmp_path: Path, disk: WatchedDisk, clock: SimClock) -> None:
    rounds: list[int] = []

    def deliver(completions: Sequence[Completion]) -> None:
        rounds.append(len(completions))
        deliver_here(completions)

    writer = WriterThread(clock, deliver)
    log = make(tmp_path, disk)
    gate = Gate(disk)
    futures = [writer.append(log, [batch(0)])]
    assert gate.reached.wait(PATIENCE_S)
    futures += [writer.append(log, [batch(offset)]) for offset in (2, 4, 6)]
    gate.opened.set()
    assert offsets(*futures) == [0, 2, 4, 6]
    writer.close()
    assert rounds == [1, 3]


def test_a_close_finishes_what_waits_and_syncs_what_is_due(tmp_path: Path, clock: SimClock) -> None:
    disk, lazy_disk = WatchedDisk(), WatchedDisk()
    writer = WriterThread(clock)
    log, lazy = make(tmp_path / "log", disk), make(tmp_path / "lazy", lazy_disk, MINUTE)
    gate = Gate(disk)
    futures = [writer.append(log, [batch(0)])]
    assert gate.reached.wait(PATIENCE_S)
    futures += [writer.append(log, [batch(2)]), writer.append(lazy, [batch(0)])]
    closing = threading.Thread(target=writer.close)
    closing.start()
    gate.opened.set()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    assert offsets(*futures) == [0, 2, 0]
    assert lazy_disk.syncs == {FIRST: 1}
    assert values(read_here(tmp_path / "lazy")) == written(range(2))
    for refused in (lambda: writer.append(log, [batch(4)]), lambda: writer.call(lambda: None)):
        with pytest.raises(Closed):
            refused()
    writer.close()


def test_a_close_frees_those_who_wait_for_room(
    tmp_path: Path, disk: WatchedDisk, clock: SimClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "WRITER_QUEUE_BYTES_MAX", KIB)
    writer = WriterThread(clock)
    log = make(tmp_path, disk)
    gate = Gate(disk)
    first = writer.append(log, [columns.encode([bytes(KIB)])])
    assert gate.reached.wait(PATIENCE_S)
    refused: list[Closed] = []

    def submit() -> None:
        try:
            writer.append(log, [batch(1)])
        except Closed as error:
            refused.append(error)

    waiting = threading.Thread(target=submit)
    waiting.start()
    closing = threading.Thread(target=writer.close)
    closing.start()
    waiting.join(PATIENCE_S)
    assert len(refused) == 1
    gate.opened.set()
    closing.join(PATIENCE_S)
    assert offsets(first) == [0]
