"""What is done to a log while the power may fail: small scripts, each about one thing, and one that mixes them all.

A workload is fixed by its seed. It says what to do and never what must come of it: that is the checker's.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from flowmesh.base.durability import ALWAYS, BATCH, Durability, Policy
from flowmesh.base.limits import KIB, SEGMENT_BYTES_MIN
from flowmesh.format.batch import Batch, Codec
from flowmesh.log.options import LogOptions
from flowmesh.log.retention import Retention
from flowmesh.sim.checker import Expectations
from flowmesh.sim.disk import SimDisk
from flowmesh.sim.scenario import Known, Scenario, SimulatedWorld, Stopped
from flowmesh.sim.world import DIRECTORY, World

INTERVAL = Durability(Policy.INTERVAL, 100)
KEEP_NOTHING = Retention(size_bytes=0)
TO_THE_LAST_BYTE = LogOptions(disk_reserve_bytes=0)


class Workload(NamedTuple):
    play: Callable[[World], None]
    about: str
    options: LogOptions = TO_THE_LAST_BYTE
    capacity_bytes: int | None = None

    @property
    def scenario(self) -> Scenario:
        def world(disk: SimDisk, seed: int, known: Known | None) -> SimulatedWorld:
            expected = known if known is not None else Expectations()
            assert isinstance(expected, Expectations)
            return World(disk, self.options, seed, expected)

        def play(world: SimulatedWorld) -> None:
            assert isinstance(world, World)
            self.play(world)

        return Scenario(self.about, world, play, lambda path: path == DIRECTORY, self.capacity_bytes)


def _append(world: World) -> None:
    world.open()
    world.append(6)
    world.send([world.batch(1, 0)])
    world.send([world.batch(5, 700)])
    world.append(4)


def _groups(world: World) -> None:
    world.open()
    for round_ in range(5):
        groups = [[world.batch(1 + row % 3, 60) for row in range(1 + group)] for group in range(round_)]
        world.send(*groups, [world.batch(3, 300, rich=True)])


def _ahead(world: World) -> None:
    world.open()
    for round_ in range(4):
        world.send(*([world.batch(1 + row % 2, 60) for row in range(1 + group % 2)] for group in range(2 + round_)),
                   apart=True)  # fmt: skip
    world.roll()
    world.send([world.batch()], [world.batch()], [world.batch(9)], [world.batch(3, 300, rich=True)], apart=True)


def _rolls(world: World) -> None:
    world.open()
    for _ in range(4):
        world.append(2)
    world.roll()
    world.roll()  # nothing to close: an empty segment is not closed
    world.send([world.batch(2) for _ in range(5)])  # more than one segment in one write
    world.append(1, records=9)  # over the limit by itself, and still taken
    world.append(1)


def _trims(world: World) -> None:
    world.open()
    world.append(4)
    world.trim(KEEP_NOTHING)
    world.append(3)
    world.trim(Retention(size_bytes=900))
    world.append(3)
    world.trim(Retention(age_ns=0))
    world.roll()
    world.trim(KEEP_NOTHING)  # down to an empty segment
    world.close()
    world.open()
    world.append(2)


def _holds(world: World) -> None:
    world.open()
    world.append(5)
    world.log.holds["paused group"] = 3
    world.trim(KEEP_NOTHING)
    world.append(2)
    world.log.holds["replay"] = 0
    world.trim(KEEP_NOTHING)
    world.log.holds.clear()
    world.log.holds["query"] = 9
    world.trim(Retention(age_ns=0))
    world.append(2)


def _indexes(world: World) -> None:
    world.open()
    for _ in range(3):
        world.append(3, records=1, size=30 * KIB)  # a row of the index for each second or third block
    world.close()
    world.open()
    world.append(2, records=1, size=20 * KIB)


def _reopen(world: World) -> None:
    for _ in range(3):
        world.open()
        world.append(2)
        world.close()
    world.open()
    world.roll()
    world.close()
    world.open()
    world.append(1)


def _clean(world: World) -> None:
    world.open()
    world.close()
    world.open()
    world.append(3)
    world.close()
    world.open()
    world.close()
    world.open()
    world.append(1)


def _always(world: World) -> None:
    world.open(durability=ALWAYS)
    world.send([world.batch() for _ in range(3)], [world.batch() for _ in range(2)])
    world.append(3)


def _interval(world: World) -> None:
    world.open(durability=INTERVAL)
    world.append(2)
    world.tick()
    world.append(3)  # the third one rolls, and a roll syncs
    world.send([world.batch() for _ in range(3)])
    world.tick()
    world.tick()
    world.append(2)
    world.close()
    world.open(durability=INTERVAL)
    world.append(2)


def _zstd(world: World) -> None:
    world.open()
    for size in (0, 50, 2000):
        world.send([world.batch(4, size, rich=True, codec=Codec.ZSTD), world.batch(2, size)])
    world.send([world.batch(12, 900, codec=Codec.ZSTD)])


def _failed_sync(world: World) -> None:
    world.open()
    world.append(2)
    for partial in (False, True):
        world.disk.fail("sync", path="*/segment-*.log", partial=partial)
        with suppress(Stopped):
            world.send([world.batch(3, 700)], [world.batch()])
        world.restart_failed()
        world.append(1)


def _disk_full(world: World) -> None:
    world.open()
    world.append(2)
    for count in (1, 3, 4):
        world.disk.fail("write", error=errno.ENOSPC, partial=True, path="*/segment-*.log")
        world.send([world.batch(1, 600) for _ in range(count)])
        world.append(1)
    for operation in ("create", "write", "sync", "sync_directory"):
        world.disk.fail(operation, error=errno.ENOSPC, partial=True, path="*/log*")
        world.roll()  # refused, and made up for by the next append
        world.append(1)
    world.disk.set_capacity(sum(map(len, world.disk.files().values())) + 700)
    world.append(4)
    world.roll()
    world.trim(KEEP_NOTHING)
    world.disk.set_capacity(None)
    world.append(2)


def _mixed(world: World) -> None:
    """Whatever the seed says, in any order: what a written script does not think of."""
    world.open(durability=world.chance.choice((BATCH, BATCH, ALWAYS, INTERVAL)))
    for _ in range(10):
        world.log.holds = {"hold": world.chance.randrange(world.log.written_end + 1)}
        action = world.chance.choice((*_MIXED_OFTEN, *_MIXED_OFTEN, *_MIXED))
        action(world)


def _send_some(world: World) -> None:
    groups = range(world.chance.randrange(1, 4))
    world.send(*([_any_batch(world) for _ in range(world.chance.randrange(1, 4))] for _ in groups))


def _any_batch(world: World) -> tuple[int, Batch]:
    records, size = world.chance.randrange(1, 4), world.chance.choice((0, 40, 700))
    codec = world.chance.choice((Codec.NONE, Codec.ZSTD))
    return world.batch(records, size, rich=world.chance.random() < 0.5, codec=codec)


def _reopen_another_way(world: World) -> None:
    world.close()
    world.open(durability=world.chance.choice((BATCH, ALWAYS, INTERVAL)))


_MIXED_OFTEN: tuple[Callable[[World], None], ...] = (_send_some, World.append)
_MIXED: tuple[Callable[[World], None], ...] = (
    World.tick,
    World.roll,
    _reopen_another_way,
    lambda world: world.trim(Retention(size_bytes=world.chance.choice((0, 1000, 3000)))),
)

_SMALL = LogOptions(disk_reserve_bytes=0, segment_records=5, index_persist_bytes=600)
_MEDIUM = LogOptions(disk_reserve_bytes=0, segment_records=20, index_persist_bytes=2000)
_LARGE = LogOptions(disk_reserve_bytes=0, segment_bytes=4 * SEGMENT_BYTES_MIN, index_persist_bytes=SEGMENT_BYTES_MIN)

WORKLOADS: Mapping[str, Workload] = {
    "append": Workload(_append, "batches of several sizes, one commit each"),
    "groups": Workload(_groups, "group commits of many submissions"),
    "ahead": Workload(_ahead, "commits that are prepared beside the sync before them, and rolls in between", _SMALL),
    "rolls": Workload(_rolls, "segments full after two batches, asked-for rolls, rolls inside one write", _SMALL),
    "trims": Workload(_trims, "retention by size and by age, down to one empty segment", _SMALL),
    "holds": Workload(_holds, "retention that meets holds", _SMALL),
    "indexes": Workload(_indexes, "blocks large enough for many index rows, index persisted often", _LARGE),
    "reopen": Workload(_reopen, "processes that follow one another", _SMALL),
    "clean": Workload(_clean, "clean closes, also of an empty log and of an untouched one"),
    "always": Workload(_always, "policy always: each append has its own fsync", _SMALL),
    "interval": Workload(_interval, "policy interval: acknowledged when written, synced by ticks", _SMALL),
    "zstd": Workload(_zstd, "compressed batches", _SMALL),
    "failed-sync": Workload(_failed_sync, "an fsync fails, the process starts anew on the same machine"),
    "disk-full": Workload(_disk_full, "writes and creates that run out of space, and space that comes back", _MEDIUM),
    "mixed": Workload(_mixed, "all of it in an order that the seed chooses", _SMALL),
}
