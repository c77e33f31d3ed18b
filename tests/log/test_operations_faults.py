"""Every operation of a log under every fault of its disk, as one table. A combination that has no cell fails.

A cell says how the operation ends: `done`, `refused` (nothing happened, and the log goes on), `failed` (the log is
poisoned, or does not open, until it is opened anew), `gone` (the power went). Whatever the cell, what was acknowledged
before is there afterwards; and what the log takes after it has been opened anew survives a power cut.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest

from flowmesh.base.errors import Closed, DiskFull, FlowMeshError, StorageFailed
from flowmesh.format.chain import ChainIdentity
from flowmesh.format.columns import decode, encode
from flowmesh.log.appender import Appender
from flowmesh.log.open_log import open_log, read_log
from flowmesh.log.options import LogOptions
from flowmesh.log.retention import Retention
from flowmesh.log.sealing import Appended
from flowmesh.log.verify import verify_log
from flowmesh.log.view import LogView
from flowmesh.ports.disk import Disk, File
from flowmesh.sim import faults as sim_faults
from flowmesh.sim.clock import START_WALL_NS, SimClock
from flowmesh.sim.disk import CrashMode, PowerLost, SimDisk

DIRECTORY = "/log"
IDENTITY = ChainIdentity(b"tabulate", "table", START_WALL_NS)
OPTIONS = LogOptions(segment_records=6, disk_reserve_bytes=0)
PERSISTING = replace(OPTIONS, index_persist_bytes=150)
"""So that each sync writes the index as well."""
KEPT = 8
"""Records acknowledged before the operation under test begins: one closed segment of six, and two more."""


class Scene(NamedTuple):
    disk: SimDisk
    clock: SimClock
    log: Appender


def values(*numbers: int) -> list[bytes]:
    return [b"value %d" % number * 5 for number in numbers]


def append(log: Appender, first: int, count: int = 2) -> None:
    """Two records, written and synced."""
    for result in log.write([encode(values(*range(first, first + count)))]):
        if not isinstance(result, Appended):
            raise result
    log.sync()


def scene(options: LogOptions = OPTIONS) -> Scene:
    disk, clock = SimDisk(1), SimClock(tick_ns=5)
    log = open_log(disk, DIRECTORY, clock, options, create=IDENTITY)
    for first in range(0, KEPT, 2):
        append(log, first)
    return Scene(disk, clock, log)


# --- the operations


def write(scene: Scene) -> None:
    for result in scene.log.write([encode(values(KEPT, KEPT + 1))]):
        if isinstance(result, FlowMeshError):
            raise result


def sync(scene: Scene) -> None:
    scene.log.sync()


def persist_index(scene: Scene) -> None:
    scene.log.sync()


def roll(scene: Scene) -> None:
    scene.log.roll()


def write_over_a_roll(scene: Scene) -> None:
    for result in scene.log.write([encode(values(*range(KEPT, KEPT + 6)))]):
        if isinstance(result, FlowMeshError):
            raise result


def trim(scene: Scene) -> None:
    scene.log.holds["all"] = 6
    scene.log.trim(Retention(size_bytes=0))


def close(scene: Scene) -> None:
    scene.log.close()


def reopen(scene: Scene) -> None:
    open_log(scene.disk, DIRECTORY, scene.clock, OPTIONS)


def recover(scene: Scene) -> None:
    open_log(scene.disk, DIRECTORY, scene.clock, OPTIONS)


def create(scene: Scene) -> None:
    open_log(scene.disk, "/other", scene.clock, OPTIONS, create=IDENTITY)


def read(scene: Scene) -> None:
    records_of(read_log(scene.disk, DIRECTORY))


def verify(scene: Scene) -> None:
    assert verify_log(scene.disk, DIRECTORY).sound


Operation = Callable[[Scene], None]
OPERATIONS: dict[str, Operation] = {
    operation.__name__.replace("_", " "): operation
    for operation in (
        write, sync, persist_index, roll, write_over_a_roll, trim, close, reopen, recover, create, read, verify,
    )
}  # fmt: skip


def prepared(name: str) -> Scene:
    """A log with something to do for this operation."""
    stage = scene(PERSISTING if name == "persist index" else OPTIONS)
    if name in ("sync", "persist index"):
        write(stage)
    elif name == "reopen":
        stage.log.close()
    elif name == "recover":
        write(stage)  # not synced: it stays in the cache of a process that is killed
        stage.log._lock.release()
        index = f"{DIRECTORY}/segment-000001.idx"
        stage.disk.corrupt(index, 0, b"?")  # to be made anew
    return stage


# --- the faults


class Fault(NamedTuple):
    call: str
    error: int
    partial: bool = False


ENOSPC_CALLS = ("write", "truncate", "sync", "create", "rename", "make_directory", "sync_directory")
FAULTS: dict[str, dict[str, Fault]] = {
    "EIO": {call: Fault(call, errno.EIO) for call in sim_faults.OPERATIONS},
    "EIO half-way": {call: Fault(call, errno.EIO, True) for call in ("write", "sync", "sync_directory")},
    "ENOSPC": {call: Fault(call, errno.ENOSPC) for call in ENOSPC_CALLS},
    "ENOSPC half-way": {"write": Fault("write", errno.ENOSPC, True)},
}
CRASHES: dict[str, CrashMode] = {
    "kill -9": "keep_all",
    "power cut, all lost": "lose_all",
    "power cut, names kept": "keep_names_lose_data",
    "power cut, torn": "random",
}

PORT_CALLS = (
    "open", "names", "make_directory", "rename", "remove", "sync_directory", "free_bytes", "lock",
    "read", "write", "sync", "truncate",
)  # fmt: skip
NOT_FAILING = ("exists", "size", "close", "remove_directory")
"""What the log takes for granted, or never calls; removing directories is for those who remove whole logs."""

OPENINGS = ("reopen", "recover", "create", "read", "verify")
"""Operations that own no log yet, or none at all: what the disk says comes through as it is."""


# --- how it ends


def ending(name: str, scene: Scene) -> str:
    log = scene.log
    try:
        OPERATIONS[name](scene)
    except PowerLost:
        return "gone"
    except DiskFull:
        assert log.failure is None
        append(log, KEPT + 20)  # space is back
        return "refused"
    except StorageFailed:
        assert isinstance(log.failure, StorageFailed | Closed)
        assert all(isinstance(result, FlowMeshError) for result in log.write([encode(values(99))]))
        return "failed"
    except OSError as error:
        if name not in OPENINGS:
            raise AssertionError(f"{name} let it through") from error
        return "no start"
    return "done"


def aftermath(scene: Scene, mode: CrashMode) -> None:
    """Opened anew, it holds what was acknowledged, takes more, and keeps that through a power cut."""
    disk = scene.disk.crash(mode)
    disk.heal()
    log = open_log(disk, DIRECTORY, scene.clock, OPTIONS)
    kept = records_of(log.view)
    assert [value for _, value in kept][: KEPT - log.view.start_offset] == values(*range(log.view.start_offset, KEPT))
    assert [offset for offset, _ in kept] == list(range(log.view.start_offset, log.view.end_offset))
    assert verify_log(disk, DIRECTORY).sound
    append(log, 50)
    log.roll()
    append(log, 60)
    later = records_of(open_log(disk.crash("lose_all"), DIRECTORY, scene.clock, OPTIONS).view)
    assert [value for _, value in later] == [value for _, value in kept] + values(50, 51, 60, 61)
    assert later[: len(kept)] == kept


def records_of(view: LogView) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for block in view.blocks() for record in decode(block.batch).records()]


def endings(name: str, fault: Fault) -> Iterator[str]:
    """One for each call of the operation that the fault can strike."""
    for nth in range(1, 100):
        stage = prepared(name)
        stage.disk.fail(fault.call, nth=nth, error=fault.error, partial=fault.partial)
        end = ending(name, stage)
        if stage.disk.faults_waiting:
            assert end == "done"
            return
        aftermath(stage, "keep_all")
        aftermath(stage, "random" if nth % 2 else "lose_all")
        yield end


def crash_endings(name: str, mode: CrashMode) -> Iterator[str]:
    for operation in range(1, 100):
        stage = prepared(name)
        stage.disk.crash_at(stage.disk.operations + operation)
        end = ending(name, stage)
        if not stage.disk.lost_power:
            return
        aftermath(stage, mode)
        yield end


def ends(found: Iterator[str]) -> str:
    """Every way a combination ends, each once; empty where the operation makes no such call."""
    return ", ".join(sorted(dict.fromkeys(found)))


def row(name: str) -> dict[str, list[str]]:
    """For each ending, the faults that lead to it: the kind, and the calls that it strikes."""
    by_end: dict[str, list[str]] = {}
    for kind, faults in FAULTS.items():
        calls: dict[str, list[str]] = {}
        for call, fault in faults.items():
            calls.setdefault(ends(endings(name, fault)), []).append(call)
        for end, struck in calls.items():
            by_end.setdefault(end, []).append(f"{kind}: {' '.join(struck)}")
    for crash, mode in CRASHES.items():
        by_end.setdefault(ends(crash_endings(name, mode)), []).append(crash)
    by_end.pop("", None)
    return by_end


TABLE: dict[str, dict[str, list[str]]] = {
    "write": {
        "failed": ["EIO: write free_bytes", "EIO half-way: write"],
        "gone": [*CRASHES],
        "refused": ["ENOSPC: write", "ENOSPC half-way: write"],
    },
    "sync": {
        "failed": ["EIO: write sync", "EIO half-way: write sync", "ENOSPC: write sync", "ENOSPC half-way: write"],
        "gone": [*CRASHES],
    },
    "persist index": {
        "done": ["ENOSPC: truncate create rename"],
        "done, failed": ["ENOSPC: write", "ENOSPC half-way: write"],
        "failed": ["EIO: write truncate sync create rename open", "EIO half-way: write sync", "ENOSPC: sync"],
        "gone": [*CRASHES],
    },
    "roll": {
        "done": ["ENOSPC: rename"],
        "done, failed, refused": ["ENOSPC: write", "ENOSPC half-way: write"],
        "done, refused": ["ENOSPC: truncate create"],
        "failed": [
            "EIO: write truncate sync create rename sync_directory open",
            "EIO half-way: write sync sync_directory",
        ],
        "gone": [*CRASHES],
        "refused": ["ENOSPC: sync sync_directory"],
    },
    "write over a roll": {
        "done": ["ENOSPC: rename"],
        "done, failed, refused": ["ENOSPC: write", "ENOSPC half-way: write"],
        "done, refused": ["ENOSPC: truncate create"],
        "failed": [
            "EIO: write truncate sync create rename sync_directory open free_bytes",
            "EIO half-way: write sync sync_directory",
        ],
        "gone": [*CRASHES],
        "refused": ["ENOSPC: sync sync_directory"],
    },
    "trim": {
        "done": ["ENOSPC: write truncate sync create rename sync_directory", "ENOSPC half-way: write"],
        "failed": [
            "EIO: write truncate sync create rename remove sync_directory open",
            "EIO half-way: write sync sync_directory",
        ],
        "gone": [*CRASHES],
    },
    "close": {
        "done": ["ENOSPC: truncate create rename"],
        "done, failed": ["ENOSPC: write", "ENOSPC half-way: write"],
        "failed": ["EIO: write truncate sync create rename open", "EIO half-way: write sync", "ENOSPC: sync"],
        "gone": [*CRASHES],
    },
    "reopen": {
        "gone": [*CRASHES],
        "no start": [
            "EIO: write open read names lock",
            "EIO half-way: write",
            "ENOSPC: write",
            "ENOSPC half-way: write",
        ],
    },
    "recover": {
        "gone": [*CRASHES],
        "no start": [
            "EIO: write truncate sync create rename sync_directory open read names lock",
            "EIO half-way: write sync sync_directory",
            "ENOSPC: write truncate sync create rename sync_directory",
            "ENOSPC half-way: write",
        ],
    },
    "create": {
        "gone": [*CRASHES],
        "no start": [
            "EIO: write truncate sync create rename make_directory sync_directory open names lock",
            "EIO half-way: write sync sync_directory",
            "ENOSPC: write truncate sync create rename make_directory sync_directory",
            "ENOSPC half-way: write",
        ],
    },
    "read": {
        "no start": ["EIO: open read names"],
    },
    "verify": {
        "no start": ["EIO: open read names"],
    },
}
"""For each operation the endings it has, and the faults that end it so. A fault that is not named cannot strike: the
operation makes no such call."""

COVERED = {"write": "write", "sync": "sync", "sync_file": "sync", "complete_sync": "sync"}
COVERED |= {"roll": "roll", "trim": "trim", "close": "close"}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_ends_under_every_fault_as_its_cell_says(name: str) -> None:
    assert row(name) == TABLE[name]


def test_every_operation_of_an_appender_has_a_row() -> None:
    public = [name for name, member in vars(Appender).items() if callable(member) and not name.startswith("_")]
    assert sorted(public) == sorted([*COVERED, "poison", "prepare"])  # these two ask nothing of a disk
    assert all(name in TABLE for name in (*COVERED.values(), *OPERATIONS))


def test_every_call_of_a_disk_has_a_column() -> None:
    assert list(FAULTS["EIO"]) == list(sim_faults.OPERATIONS)
    ports = [name for name in (*vars(Disk), *vars(File)) if not name.startswith("_")]
    assert sorted(dict.fromkeys(ports)) == sorted(dict.fromkeys([*NOT_FAILING, *PORT_CALLS]))
    assert all(call in sim_faults.OPERATIONS for call in PORT_CALLS)


def test_every_fault_of_the_table_strikes_somewhere() -> None:
    struck = " ".join(text for cells in TABLE.values() for texts in cells.values() for text in texts).split()
    assert [call for faults in FAULTS.values() for call in faults if call not in struck] == []
