"""Bugs put in on purpose, each as small as it can be: every one of them is caught, so the suite can tell good from bad.

Each row names the piece that catches it. Without the bug the same piece finds nothing: that is the last test here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import pytest

from flowmesh.base.durability import Durability
from flowmesh.base.errors import CorruptData
from flowmesh.format import block as blocks
from flowmesh.format import segment as segment_format
from flowmesh.format.checksum import crc32c
from flowmesh.format.segment import NO_HASH
from flowmesh.log import appender, commit, directory, open_log, opening, recovery, trim, view
from flowmesh.log.appender import Appender
from flowmesh.log.findings import Action
from flowmesh.log.options import LogOptions
from flowmesh.log.retention import Retention
from flowmesh.log.sealing import Appended
from flowmesh.log.verify import verify_log
from flowmesh.sim.checker import Expectations
from flowmesh.sim.disk import PowerLost, SimDisk
from flowmesh.sim.explore import Plan
from flowmesh.sim.workloads import WORKLOADS
from flowmesh.sim.world import DIRECTORY, World
from tests.sim.planting import Bug, NoDirectorySync, Patch, explored, require_caught

POWER_CUTS = Plan(random_outcomes=25, second_crashes_max=0, faults=False, violations_max=1)
"""For what only a rare order of writes on the medium brings to light."""


# --- the bugs


def ack_before_fsync(patch: Patch) -> None:
    patch.setattr(Durability, "acks_after_sync", False)


def new_segment_without_directory_fsync(patch: Patch) -> None:
    for module in (appender, open_log):
        made = module.create_segment
        patch.setattr(module, "create_segment", lambda disk, *rest, made=made: made(NoDirectorySync(disk), *rest))


def new_directory_without_fsync_of_its_parent(patch: Patch) -> None:
    patch.setattr(directory, "make_directory", lambda disk, path: disk.make_directory(path))


def fsync_retried(patch: Patch) -> None:
    honest = Appender.sync_file

    def sync_file(log: Appender) -> None:
        try:
            log._file.sync()
        except OSError:
            honest(log)

    patch.setattr(Appender, "sync_file", sync_file)


def torn_tail_served(patch: Patch) -> None:
    patch.setattr(blocks, "crc_is_right", lambda entry: True)
    patch.setattr(blocks, "hash_is_right", lambda header, data: True)


def torn_tail_taken_for_rot(patch: Patch) -> None:
    for row, action in recovery.DECISIONS.items():
        if action is Action.CUT:
            patch.setitem(cast(dict[Any, Any], recovery.DECISIONS), row, Action.QUARANTINE)


def index_trusted_blindly(patch: Patch) -> None:
    honest = view._scan

    def believing(segment: Any, start: Any, chunk_bytes: int) -> Iterator[Any]:
        return honest(segment, start._replace(offset=-1), chunk_bytes)

    patch.setattr(view, "_scan", believing)


def block_hash_without_timestamp(patch: Patch) -> None:
    class Unmoved:
        def pack(self, *_: int) -> bytes:
            return bytes(16)

    patch.setattr(blocks, "_TIMESTAMP", Unmoved())


def roll_that_forgets_the_previous_hash(patch: Patch) -> None:
    made = appender.create_segment
    patch.setattr(
        appender, "create_segment", lambda disk, where, number, chain, recent, _, *rest: made(
            disk, where, number, chain, recent, NO_HASH, *rest
        )
    )  # fmt: skip


def roll_that_forgets_the_last_block(patch: Patch) -> None:
    made = segment_format.encode
    patch.setattr(segment_format, "encode", lambda chain, segment, _, *rest: made(chain, segment, NO_HASH, *rest))


def trim_below_a_hold(patch: Patch) -> None:
    honest = trim.doomed
    patch.setattr(
        trim, "doomed", lambda closed, active, retention, holds, now: honest(closed, active, retention, {}, now)
    )


def tail_not_written_again(patch: Patch) -> None:
    honest = opening.settle
    patch.setattr(
        open_log, "settle", lambda disk, where, found: honest(
            disk, where, found._replace(durable_position=10**9)
        )
    )  # fmt: skip


def floor_not_synced(patch: Patch) -> None:
    honest = directory.write_file

    def write_file(disk: Any, where: str, name: str, data: bytes, *, sync: bool = True) -> None:
        honest(disk, where, name, data, sync=sync and name != "floor.json")

    patch.setattr(directory, "write_file", write_file)


def recovery_trusts_a_floor_in_the_cache(patch: Patch) -> None:
    honest = opening.settle
    patch.setattr(open_log, "settle", lambda disk, where, found: honest(disk, where, found._replace(notes=())))


def removal_before_the_floor(patch: Patch) -> None:
    honest = trim.write_floor

    def write_floor(disk: Any, where: str, first: Any) -> None:
        for number in range(1, first.number):
            if disk.exists(f"{where}/segment-{number:06d}.log"):
                disk.remove(f"{where}/segment-{number:06d}.log")
        honest(disk, where, first)

    patch.setattr(trim, "write_floor", write_floor)


def mark_written_before_the_sync(patch: Patch) -> None:
    honest = Appender.sync_file

    def sync_file(log: Appender) -> None:
        opening.write_mark(log._mark, log._active, clean=False)
        honest(log)

    patch.setattr(Appender, "sync_file", sync_file)


def refused_write_not_taken_back(patch: Patch) -> None:
    def take_back(log: Appender, error: OSError) -> None:
        raise log._disk_full(0) from error

    patch.setattr(Appender, "_take_back", take_back)


def refused_write_taken_back_without_a_sync(patch: Patch) -> None:
    honest = Appender._take_back

    def take_back(log: Appender, error: OSError) -> None:
        before = log._dirty
        try:
            honest(log, error)
        finally:
            log._dirty = before

    patch.setattr(Appender, "_take_back", take_back)


def dirty_view_published(patch: Patch) -> None:
    honest = Appender.write

    def write(log: Appender, group: Any) -> Any:
        results = honest(log, group)
        log._publish()
        return results

    patch.setattr(Appender, "write", write)


def second_reader_ignores_the_mark(patch: Patch) -> None:
    honest = opening._Walk.last_segment
    patch.setattr(
        opening._Walk, "last_segment", lambda walk, number, mark, *, owner: honest(walk, number, mark, owner=True)
    )


def torn_creation_kept(patch: Patch) -> None:
    patch.setattr(opening, "_drop_torn_creation", lambda *_, **__: None)


def failed_round_acknowledged(patch: Patch) -> None:
    honest = commit.sync

    def sync(logs: Any, sync_files: Any) -> None:
        honest(logs, sync_files)
        for log in logs:
            log._failure = None

    patch.setattr(commit, "sync", sync)


def sync_after_the_roll(patch: Patch) -> None:
    """The old segment's tail is still in the cache when the new one begins."""
    honest = Appender._roll

    def roll(log: Appender, now: int) -> None:
        log.sync, keep = lambda: None, log.sync  # type: ignore[method-assign]
        try:
            honest(log, now)
        finally:
            log.sync = keep  # type: ignore[method-assign]

    patch.setattr(Appender, "_roll", roll)


def offset_counted_per_batch(patch: Patch) -> None:
    honest = Appender.write

    def write(log: Appender, group: Any) -> Any:
        results = honest(log, group)
        return [r._replace(base_offset=r.base_offset + 1) if isinstance(r, Appended) else r for r in results]

    patch.setattr(Appender, "write", write)


BUGS = (
    Bug("ack before fsync", ack_before_fsync, "append", "acknowledged as"),
    Bug("no directory fsync after create", new_segment_without_directory_fsync, "rolls", ""),
    Bug("no fsync of the parent directory", new_directory_without_fsync_of_its_parent, "append", "is lost"),
    Bug("fsync retried after a failure", fsync_retried, "append", "is lost"),
    Bug("torn tail served", torn_tail_served, "append", ""),
    Bug("torn tail taken for rot", torn_tail_taken_for_rot, "append", "cut short"),
    Bug("index trusted blindly", index_trusted_blindly, "wrong index", "read"),
    Bug("block hash without the timestamp", block_hash_without_timestamp, "forged timestamp", "not found"),
    Bug("roll forgets the previous segment", roll_that_forgets_the_previous_hash, "rolls", "not linked to the segment"),
    Bug("roll forgets the last block", roll_that_forgets_the_last_block, "rolls", ""),
    Bug("trim below a hold", trim_below_a_hold, "holds", "begins at offset"),
    Bug("unsynced tail not written again", tail_not_written_again, "failed-sync", "is lost"),
    Bug("floor not synced before the removal", floor_not_synced, "trims", "floor"),
    Bug("recovery trusts a floor in the cache", recovery_trusts_a_floor_in_the_cache, "interrupted trim", "missing"),
    Bug("segment removed before the floor", removal_before_the_floor, "trims", "missing"),
    Bug("mark written before the sync", mark_written_before_the_sync, "append", "missing from the end"),
    Bug("refused write not taken back", refused_write_not_taken_back, "disk-full", "refused"),
    Bug("refused write taken back, not synced", refused_write_taken_back_without_a_sync, "disk-full", "", POWER_CUTS),
    Bug("dirty view published", dirty_view_published, "append", "a reader was shown"),
    Bug("second reader ignores the mark", second_reader_ignores_the_mark, "append", "a reader was shown"),
    Bug("torn creation kept", torn_creation_kept, "rolls", ""),
    Bug("failed round acknowledged", failed_round_acknowledged, "append", "is lost"),
    Bug("old segment not synced at a roll", sync_after_the_roll, "rolls", ""),
    Bug("offset miscounted", offset_counted_per_batch, "append", "was acknowledged at offset"),
)


# --- the pieces that catch them


def filled(count: int, size: int) -> World:
    world = World(SimDisk(1), LogOptions(tail_cache_bytes=0), 1, Expectations())
    world.open()
    world.append(count, records=1, size=size)
    return world


def wrong_index() -> list[str]:
    """An index that is sound by itself and leads to the wrong blocks: every read gives what was asked for, still."""
    world = filled(12, 40_000)
    world.roll()
    (segment,) = world.log.view.closed
    index = segment.source.index(segment)
    assert len(index) > 3, "an index of one row cannot lead astray"
    index.positions[1:] = index.positions[2:] + index.positions[-1:]
    opening.write_index(world.disk, DIRECTORY, segment, index)
    again = World(world.disk.crash("keep_all"), world.options, 1, world.expected)
    again.open()
    problems = []
    for offset in range(12):
        found = again.log.view.read(offset, 1).blocks[0].base_offset
        if found != offset:
            problems.append(f"a read of offset {offset} began at {found}")
    return problems


def forged_timestamp() -> list[str]:
    """Somebody moves a block's time and makes its checksum right again: verify has to find it by its hash."""
    world = filled(3, 100)
    world.close()
    (path,) = (path for path in world.disk.files() if path.endswith(".log"))
    data = bytearray(world.disk.files()[path])
    length = blocks.LENGTH.unpack_from(data, segment_format.SIZE)[0] + blocks.LENGTH.size
    data[segment_format.SIZE + blocks.PREVIOUS_HASH.stop] ^= 1
    entry = data[segment_format.SIZE : segment_format.SIZE + length - blocks.CRC.size]
    data[segment_format.SIZE + len(entry) :][: blocks.CRC.size] = b""
    end = segment_format.SIZE + len(entry)
    data[end : end + blocks.CRC.size] = blocks.CRC.pack(crc32c(bytes(entry)))
    world.disk.corrupt(path, 0, bytes(data))
    return [] if not verify_log(world.disk, DIRECTORY).sound else ["a forged timestamp was not found"]


def interrupted_trim() -> list[str]:
    """A process is killed before its new floor is synced, and the power fails while the next one takes up the trim."""
    world = filled(3, 10)
    for _ in range(2):
        world.roll()
        world.append()
    world.disk.crash_at(world.disk.operations + 6)  # behind create, truncate, write, sync and rename
    with suppress(PowerLost):
        world.trim(Retention(size_bytes=0))
    assert world.disk.trace[-1] == ("sync_directory", DIRECTORY)
    problems = []
    for point in range(1, 12):
        for _ in range(12):
            killed = world.disk.crash("keep_all")
            killed.crash_at(point)
            with suppress(PowerLost):
                World(killed, world.options, 1, world.expected.copy()).open()
            after = World(killed.crash("random"), world.options, 1, world.expected.copy())
            try:
                after.open()
                after.check(machine_died=True)
            except CorruptData as error:
                after.problems.append(str(error))
            problems += after.problems
    return problems


PIECES: dict[str, Callable[[], list[str]]] = {
    "wrong index": wrong_index,
    "forged timestamp": forged_timestamp,
    "interrupted trim": interrupted_trim,
}


def findings(piece: str, plan: Plan) -> list[str]:
    return PIECES[piece]() if piece in PIECES else explored(piece, plan)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.what.replace(" ", "-"))
def test_a_planted_bug_is_caught(bug: Bug, monkeypatch: Patch) -> None:
    bug.plant(monkeypatch)
    require_caught(bug, findings(bug.piece, bug.plan))


@pytest.mark.parametrize("piece", PIECES)
def test_without_a_bug_a_piece_finds_nothing(piece: str) -> None:
    """The workloads without a bug are the whole of test_explore."""
    assert findings(piece, Plan()) == []


def test_every_piece_that_catches_is_known() -> None:
    assert {bug.piece for bug in BUGS} <= PIECES.keys() | WORKLOADS.keys()
