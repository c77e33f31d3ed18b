"""Groups on a node: positions and holds over restarts and power cuts, what retention leaves, a log that stays short."""

from __future__ import annotations

import random
from typing import Any

import pytest

from flowmesh.base.errors import CorruptData, FlowMeshError, NotFound, StorageFailed
from flowmesh.base.limits import GROUPS_CARRY_BYTES, GROUPS_NOTE_NS
from flowmesh.catalog.model import StreamKey, StreamSettings
from flowmesh.groups.commands import CommitOffsets, DropGroup
from flowmesh.groups.model import Group
from flowmesh.log.commit import Completion, Submission, commit
from flowmesh.log.options import LogOptions
from flowmesh.node import groups as node_groups
from flowmesh.node import paths
from flowmesh.node.node import Node
from flowmesh.sim.clock import SimClock
from flowmesh.sim.disk import CrashMode, PowerLost, SimDisk
from flowmesh.sim.entropy import SimEntropy
from flowmesh.streams.machine import AppendRecord
from tests.node.worlds import DATA, commit_to

ORDERS: StreamKey = ("default", "shop", "orders")
BILLS: StreamKey = ("default", "shop", "bills")
SMALL = StreamSettings(partitions=2, segment_bytes=65_536, retention_bytes=0)
LOG = f"{DATA}/{paths.GROUPS}"
SECOND = 1_000_000_000
MODES: tuple[CrashMode, ...] = ("lose_all", "keep_all", "keep_names_lose_data", "random")


class Place:
    """A machine with a clock that the test moves."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.clock = SimClock()

    def open(self) -> Node:
        self.node = Node.open(self.disk, self.clock, SimEntropy(self.disk.operations), DATA, lambda _text: None, 0)
        return self.node

    def restart(self, away_s: int = 0) -> Node:
        """The process ends and another one begins: both clocks may be anywhere."""
        self.node.close()
        self.clock = SimClock(SimClock().wall_ns() + away_s * SECOND)
        return self.open()

    def crash(self, mode: CrashMode) -> Place:
        after = Place(self.disk.crash(mode))
        after.open()
        return after

    def id_of(self, key: StreamKey = ORDERS) -> int:
        return self.node.stream(key).stream.id

    def commit(self, name: str, offsets: dict[int, int], hold_s: int | None = None, key: StreamKey = ORDERS) -> Group:
        hold_ns = None if hold_s is None else hold_s * SECOND
        group = self.node.groups.execute(CommitOffsets(self.id_of(key), name, offsets, "consumer", hold_ns))
        assert isinstance(group, Group)
        return group

    def offsets(self, name: str, key: StreamKey = ORDERS) -> dict[int, int] | None:
        group = self.node.groups.machine.find(self.id_of(key), name)
        return None if group is None else group.offsets

    def start(self, partition: int = 0) -> int:
        return self.node.stream(ORDERS).partition(partition).view.start_offset

    def run(self, duration_s: float) -> None:
        self.clock.advance(int(duration_s * SECOND))


@pytest.fixture
def place() -> Place:
    made = Place(SimDisk(5))
    made.open().create_stream(ORDERS, SMALL)
    for _ in range(10):  # one record to a segment, in partition 0
        commit_to(made.node, ORDERS, AppendRecord(b"x" * 60_000))
    return made


# --- holds --------------------------------------------------------------------------------------------------------


def test_retention_keeps_what_the_slowest_group_with_a_hold_has_not_read(place: Place) -> None:
    place.commit("slow", {0: 3}, hold_s=100)
    place.commit("slower without a hold", {0: 1})
    place.commit("fast", {0: 7}, hold_s=100)
    place.commit("elsewhere", {1: 0}, hold_s=100)
    place.node.trim()
    assert place.start() == 3
    place.commit("slow", {0: 5}, hold_s=100)
    place.node.trim()
    assert place.start() == 5
    place.node.groups.execute(DropGroup(place.id_of(), "slow"))
    place.node.trim()
    assert place.start() == 7
    place.commit("fast", {})  # it holds nothing any more
    place.node.trim()
    assert place.start() == 9


def test_a_hold_ends_when_the_node_has_run_for_its_time_since_the_last_commit(place: Place) -> None:
    place.commit("slow", {0: 3}, hold_s=100)
    place.run(99)
    place.node.trim()
    assert place.start() == 3
    place.commit("slow", {0: 4}, hold_s=100)
    place.run(99.5)
    place.node.trim()
    assert place.start() == 4
    place.run(0.5)
    place.node.trim()
    assert place.start() == 9
    group = place.node.groups.machine.find(place.id_of(), "slow")
    assert group is not None
    assert group.hold_left_ns(place.node.groups.ran_ns()) == 0


def test_a_hold_does_not_run_out_while_the_node_is_down(place: Place) -> None:
    place.commit("slow", {0: 3}, hold_s=100)
    for away_s in (10**6, -(10**6), 0):  # the system's clock jumps, too
        place.run(30)
        place.restart(away_s)
        place.node.trim()
        assert place.start() == 3
    place.run(9)
    place.node.trim()
    assert place.start() == 3
    place.run(2)
    place.node.trim()
    assert place.start() == 9


def test_after_a_crash_a_hold_lasts_longer_at_most_by_what_was_not_written_down(place: Place) -> None:
    hold_s = 10 * GROUPS_NOTE_NS // SECOND
    place.commit("slow", {0: 3}, hold_s)
    place.run(GROUPS_NOTE_NS / SECOND - 1)
    before = place.disk.operations
    place.node.groups.note_time()
    assert place.disk.operations == before, "nothing is written as often as that"
    place.run(1)
    place.node.trim()
    after = place.crash("lose_all")
    assert after.node.groups.ran_ns() == GROUPS_NOTE_NS
    after.run(hold_s - GROUPS_NOTE_NS / SECOND - 1)
    after.node.trim()
    assert after.start() == 3
    after.run(1)
    after.node.trim()
    assert after.start() == 9


def test_time_is_not_written_down_for_groups_that_hold_nothing(place: Place) -> None:
    place.commit("slow", {0: 3})
    place.run(10**6)
    before = place.disk.operations
    place.node.groups.note_time()
    assert place.disk.operations == before


def test_no_hold_runs_out_while_nobody_can_commit(place: Place) -> None:
    place.commit("slow", {0: 3}, hold_s=100)
    place.disk.fail("sync", path=f"{LOG}/segment-*")
    with pytest.raises(StorageFailed):
        place.commit("slow", {0: 9}, hold_s=100)
    assert place.offsets("slow") == {0: 3}, "what was not synced is not seen"
    place.run(1_000)
    place.node.trim()
    assert place.start() == 3


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_nothing_goes_that_a_hold_keeps_and_everything_goes_once_all_are_over(seed: int) -> None:
    """Against a model that knows no more than: this group held from this offset on, until the node has run so long."""
    chance, place = random.Random(seed), Place(SimDisk(seed))
    place.open().create_stream(ORDERS, SMALL)
    held: dict[str, tuple[int, int]] = {}
    ran_s = end = 0
    for _ in range(150):
        match chance.randrange(9):
            case 0 | 1 | 2:
                commit_to(place.node, ORDERS, AppendRecord(b"x" * 40_000))
                end += 1
            case 3 | 4:
                name, offset, hold_s = chance.choice("abc"), chance.randint(place.start(), end), chance.randint(1, 300)
                place.commit(name, {0: offset}, chance.choice([hold_s, None]) if name == "c" else hold_s)
                group = place.node.groups.machine.find(place.id_of(), name)
                held[name] = (offset, ran_s + hold_s if group is not None and group.hold_ns is not None else 0)
            case 5:
                passed_s = chance.randrange(100)
                ran_s += passed_s
                place.run(passed_s)
            case 6:
                place.restart(chance.randrange(-(10**6), 10**6))
            case 7:
                place = place.crash(chance.choice(MODES))
            case 8:
                place.node.trim()
        for offset, until_s in held.values():
            assert place.start() <= offset or until_s <= ran_s
        assert place.offsets("a") == ({0: held["a"][0]} if "a" in held else None)
    place.run(1_000)
    place.node.trim()
    assert end - place.start() <= 1


# --- the life of groups -------------------------------------------------------------------------------------------


def test_groups_go_with_their_stream_and_a_new_one_of_the_same_name_has_none(place: Place) -> None:
    place.node.create_stream(BILLS, SMALL)
    place.commit("a", {0: 3})
    place.commit("a", {0: 0}, key=BILLS)
    gone = place.id_of()
    place.node.delete_stream(ORDERS)
    assert place.node.groups.machine.of_stream(gone) == []
    place.node.create_stream(ORDERS, SMALL)
    for _ in range(2):
        assert place.offsets("a") is None
        assert place.offsets("a", BILLS) == {0: 0}
        place.restart()


def test_a_commit_that_comes_after_the_end_of_its_stream_is_forgotten_by_upkeep(place: Place) -> None:
    gone = place.id_of()
    place.node.delete_stream(ORDERS)
    place.node.groups.execute(CommitOffsets(gone, "late", {0: 1}, "consumer"))
    place.node.trim()
    assert place.node.groups.machine.groups == {}


def test_a_round_of_commits_shares_one_fsync_and_each_gets_its_answer(place: Place) -> None:
    stream, told = place.id_of(), list[Any]()
    asked = [CommitOffsets(stream, f"g{number}", {0: number}, "consumer") for number in range(50)]
    group = place.node.groups
    before = place.disk.operations
    rounds: list[Completion] = commit(
        [Submission(group, [command], told.append) for command in asked]
        + [Submission(group, [DropGroup(stream, "nobody")], told.append)]
    )
    assert place.disk.operations - before <= 5
    for done, results in rounds:
        done(results)
    assert [found.offsets for (found,) in told[:-1]] == [{0: number} for number in range(50)]
    assert isinstance(told[-1][0], NotFound)
    assert len(place.restart().groups.machine.of_stream(stream)) == 50


# --- the log ------------------------------------------------------------------------------------------------------


def test_the_log_stays_short_however_much_is_committed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_groups, "GROUPS_CARRY_BYTES", 20_000)
    place.restart()
    for number in range(2_000):
        place.commit(f"g{number % 7}", {number % 2: number}, hold_s=9)
    assert place.node.groups.appender.view.size_bytes < 60_000
    assert place.node.groups.appender.view.start_offset > 1_000
    expected = {f"g{group}": place.offsets(f"g{group}") for group in range(7)}
    for node in (place.restart(), place.crash("lose_all").node):
        found = {group.name: group.offsets for group in node.groups.machine.of_stream(place.id_of())}
        assert found == expected


def test_what_is_known_may_fill_several_segments_when_it_is_written_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_groups, "GROUPS_CARRY_BYTES", 20_000)
    monkeypatch.setattr(node_groups, "GROUPS_PIECE_BYTES", 100)
    appender = place.restart().groups.appender
    for number in range(200):
        appender.options = LogOptions(segment_records=3, disk_reserve_bytes=0)
        place.commit(f"g{number % 20}", {0: number})
    assert len(appender.view.segments) > 5
    assert appender.view.start_offset > 50
    place.restart()
    assert [place.offsets(f"g{number}") for number in range(20)] == [{0: 180 + number} for number in range(20)]


def test_a_full_disk_does_not_lose_what_is_known_and_heals(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_groups, "GROUPS_CARRY_BYTES", 20_000)
    place.restart()
    done = -1
    place.disk.set_capacity(sum(map(len, place.disk.files().values())) + 25_000)
    for number in range(1_000):
        try:
            place.commit("a", {0: number})
        except FlowMeshError:
            break
        done = number
    assert place.offsets("a") == {0: done}
    place.disk.set_capacity(None)
    place.commit("a", {0: done + 1})
    assert place.restart().groups.machine.of_stream(place.id_of())[0].offsets == {0: done + 1}


def test_rot_in_the_log_of_groups_stops_the_start_and_says_what_can_be_done(place: Place) -> None:
    for number in range(20):
        place.commit("a", {0: number})
    place.node.close()
    place.disk.flip_bit(f"{LOG}/segment-000001.log", 500, 3)
    with pytest.raises(CorruptData, match="move it away"):
        place.open()


# --- power cuts ---------------------------------------------------------------------------------------------------


class Day:
    """Commits, deletions, restarts and a log that is written anew twice; `known` was acknowledged."""

    def __init__(self, disk: SimDisk) -> None:
        self.place = Place(disk)
        self.known: dict[str, dict[int, int]] = {}
        self.unsure: str | None = None

    def commit(self, name: str, offsets: dict[int, int]) -> None:
        self.unsure = name
        self.place.commit(name, offsets, hold_s=60)
        self.known[name] = {**self.known.get(name, {}), **offsets}
        self.unsure = None

    def delete(self, name: str) -> None:
        self.unsure = name
        self.place.node.groups.execute(DropGroup(self.place.id_of(), name))
        del self.known[name]
        self.unsure = None

    def live(self) -> None:
        self.place.open().create_stream(ORDERS, SMALL)
        for number in range(8):
            self.commit(f"g{number % 3}", {number % 2: number})
        self.delete("g1")
        self.place.restart()
        self.commit("g1", {1: 1})
        self.place.run(100)
        self.place.node.trim()
        for number in range(4):
            self.commit("g2", {0: 100 + number})
        self.place.node.close()

    def check(self, after: Place) -> None:
        if ORDERS not in after.node.streams:
            assert not self.known
            return
        found = {group.name: group.offsets for group in after.node.groups.machine.of_stream(after.id_of())}
        for name in self.known.keys() | found.keys():
            if name != self.unsure:
                assert found.get(name) == self.known.get(name)
        after.commit("again", {0: 1})
        assert after.offsets("again") == {0: 1}
        after.node.close()


@pytest.fixture
def carried_often(monkeypatch: pytest.MonkeyPatch) -> None:
    assert GROUPS_CARRY_BYTES > 1_000
    monkeypatch.setattr(node_groups, "GROUPS_CARRY_BYTES", 1_200)
    monkeypatch.setattr(node_groups, "GROUPS_PIECE_BYTES", 150)


def test_a_power_cut_at_every_operation_loses_no_position(carried_often: None) -> None:
    undisturbed = Day(SimDisk(1))
    undisturbed.live()
    operations = undisturbed.place.disk.operations
    assert undisturbed.place.open().groups.appender.view.active.number > 2, "the log was written anew"
    for operation in range(1, operations + 1):
        day = Day(SimDisk(operation))
        day.place.disk.crash_at(operation)
        with pytest.raises(PowerLost):
            day.live()
        for mode in MODES:
            day.check(day.place.crash(mode))
