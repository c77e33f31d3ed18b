"""Faults on order: which call fails, and what it leaves behind. A failed sync is the one that matters most."""

import errno
from collections.abc import Callable
from functools import partial

import pytest

from flowmesh.sim.disk import SimDisk
from flowmesh.sim.faults import MUTATIONS


def disk_with(path: str, data: bytes, *, seed: int = 0) -> SimDisk:
    """One durable file."""
    disk = SimDisk(seed)
    file = disk.open(path, write=True, create=True)
    file.write(0, [data])
    file.sync()
    disk.sync_directory("/")
    return disk


def raises(number: int, call: Callable[[], object]) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011  the number below is the match
        call()
    assert errno.errorcode[caught.value.errno or 0] == errno.errorcode[number]


def test_the_nth_call_fails_and_no_other() -> None:
    disk = SimDisk()
    file = disk.open("/file", write=True, create=True)
    disk.fail("write", nth=2, error=errno.ENOSPC)
    file.write(0, [b"a"])
    raises(errno.ENOSPC, lambda: file.write(1, [b"b"]))
    file.write(1, [b"c"])
    assert disk.files() == {"/file": b"ac"}
    assert disk.operations == 4
    assert disk.faults_waiting == 0


def test_a_fault_may_last_and_be_healed() -> None:
    disk = disk_with("/file", b"abc")
    file = disk.open("/file")
    disk.fail("read", nth=2, times=3)
    assert file.read(0, 3) == b"abc"
    raises(errno.EIO, lambda: file.read(0, 3))
    raises(errno.EIO, lambda: file.read(0, 3))
    assert disk.faults_waiting == 1
    disk.heal()
    assert disk.faults_waiting == 0
    assert file.read(0, 3) == b"abc"


def test_a_fault_may_wait_for_a_path() -> None:
    disk = SimDisk()
    disk.make_directory("/log")
    disk.fail("write", path="*.idx")
    disk.fail("write", path="log/exact")
    disk.open("/log/1.log", write=True, create=True).write(0, [b"x"])
    raises(errno.EIO, lambda: disk.open("/log/1.idx", write=True, create=True).write(0, [b"x"]))
    raises(errno.EIO, lambda: disk.open("log/exact", write=True, create=True).write(0, [b"x"]))


def test_two_faults_count_the_same_calls() -> None:
    disk = disk_with("/file", b"abc")
    file = disk.open("/file")
    disk.fail("read", nth=1, error=errno.EIO)
    disk.fail("read", nth=2, error=errno.ENOMEM)
    raises(errno.EIO, lambda: file.read(0, 1))
    raises(errno.ENOMEM, lambda: file.read(0, 1))
    assert file.read(0, 1) == b"a"


def test_an_unknown_operation_cannot_be_ordered_to_fail() -> None:
    with pytest.raises(AssertionError, match="fsync"):
        SimDisk().fail("fsync")


def test_every_operation_can_fail_and_then_changes_nothing() -> None:
    disk = disk_with("/file", b"abc")
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: disk.open("/file"),
        "create": lambda: disk.open("/new", write=True, create=True),
        "read": lambda: disk.open("/file").read(0, 1),
        "write": lambda: disk.open("/file", write=True).write(0, [b"x"]),
        "truncate": lambda: disk.open("/file", write=True).truncate(0),
        "sync": lambda: disk.open("/file").sync(),
        "rename": lambda: disk.rename("/file", "/new"),
        "remove": lambda: disk.remove("/file"),
        "make_directory": lambda: disk.make_directory("/new"),
        "sync_directory": lambda: disk.sync_directory("/"),
        "names": lambda: disk.names("/"),
        "free_bytes": lambda: disk.free_bytes("/"),
        "lock": lambda: disk.lock("/file"),
    }
    assert set(calls) >= set(MUTATIONS)
    for operation, call in calls.items():
        disk.fail(operation, error=errno.EMFILE)
        raises(errno.EMFILE, call)
        assert disk.files() == {"/file": b"abc"}
        assert disk.names("/") == ["file"]


def test_a_partial_write_writes_a_first_part() -> None:
    found = set()
    for seed in range(60):
        disk = disk_with("/file", b"", seed=seed)
        disk.fail("write", partial=True)
        file = disk.open("/file", write=True)
        raises(errno.EIO, partial(file.write, 0, [b"ab", b"cd"]))
        found.add(disk.files()["/file"])
    assert found == {b"", b"a", b"ab", b"abc"}


def test_a_failed_sync_is_not_made_good_by_the_next() -> None:
    disk = disk_with("/file", b"synced")
    file = disk.open("/file", write=True)
    file.write(6, [b" lost"])
    disk.fail("sync")
    raises(errno.EIO, file.sync)
    file.sync()
    assert file.read(0, 100) == b"synced lost"
    for _ in range(20):
        assert disk.crash("random").files() == {"/file": b"synced"}


def test_a_partly_failed_sync_may_leave_some_sectors() -> None:
    found = set()
    for seed in range(60):
        disk = disk_with("/file", b"", seed=seed)
        file = disk.open("/file", write=True)
        file.write(0, [b"n" * 1024])
        disk.fail("sync", partial=True)
        raises(errno.EIO, file.sync)
        found.add(disk.durable_files()["/file"])
    assert {b"", b"n" * 1024, b"n" * 512 + bytes(512), bytes(512) + b"n" * 512} <= found
