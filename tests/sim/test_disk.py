"""The simulated disk as a whole: kill and power cut, capacity, rot, and one history for one seed."""

import errno
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable

import pytest

from flowmesh.ports.disk import Disk
from flowmesh.sim.disk import CrashMode, PowerLost, SimDisk
from flowmesh.sim.faults import MUTATIONS


def disk_with(path: str, data: bytes, *, seed: int = 0, capacity_bytes: int | None = None) -> SimDisk:
    """One durable file."""
    disk = SimDisk(seed, capacity_bytes=capacity_bytes)
    file = disk.open(path, write=True, create=True)
    file.write(0, [data])
    file.sync()
    disk.sync_directory("/")
    return disk


def work(disk: Disk) -> None:
    """A little of everything, as a log would do it: eleven mutating operations of all eight kinds."""
    disk.make_directory("/log/0")
    disk.sync_directory("/log")
    file = disk.open("/log/0/segment.tmp", write=True, create=True)
    file.write(0, [b"header" * 100])
    file.sync()
    disk.rename("/log/0/segment.tmp", "/log/0/segment")
    file.write(600, [b"entry" * 300])
    file.truncate(1100)
    disk.remove("/log/0/segment")
    file.sync()


def busy(disk: SimDisk) -> None:
    disk.make_directory("/d")
    for number in range(40):
        file = disk.open(f"/d/{number % 7}", write=True, create=True)
        file.write(file.size() * (number % 3) // 2, [b"%d" % number * 400, b"x" * number])
        if number % 5 == 0:
            file.sync()
        if number % 6 == 0:
            disk.rename(f"/d/{number % 7}", f"/d/{number % 4}r")
        if number % 11 == 0:
            disk.sync_directory("/d")


def history(seed: int) -> tuple[int, int]:
    """All that a seed decides, in two numbers: the trace, and several crashes of the same disk."""
    disk = SimDisk(seed)
    disk.fail("write", nth=20, partial=True)
    try:
        busy(disk)
    except OSError:
        busy(disk)
    crashes = [sorted(disk.crash().files().items()) for _ in range(5)]
    return zlib.crc32(repr(disk.trace).encode()), zlib.crc32(repr(crashes).encode())


def raises(number: int, call: Callable[[], object]) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011  the number below is the match
        call()
    assert errno.errorcode[caught.value.errno or 0] == errno.errorcode[number]


# ---- the trace and the seed


def test_every_mutating_operation_has_a_number_and_a_line_in_the_trace() -> None:
    disk = SimDisk()
    work(disk)
    assert disk.operations == len(disk.trace) == 11
    assert {str(entry[0]) for entry in disk.trace} == set(MUTATIONS)
    assert disk.trace[:3] == [("make_directory", "/log"), ("make_directory", "/log/0"), ("sync_directory", "/log")]
    assert disk.trace[4] == ("write", "/log/0/segment.tmp", 0, 600, zlib.crc32(b"header" * 100))
    assert disk.trace[6] == ("rename", "/log/0/segment.tmp", "/log/0/segment")


def test_reading_has_no_number() -> None:
    disk = disk_with("/file", b"abc")
    before = disk.operations
    disk.open("file").read(0, 3)
    disk.names("/")
    disk.exists("/file")
    disk.make_directory("/")
    disk.lock("/file").release()
    disk.free_bytes("/")
    assert disk.operations == before


def test_one_seed_gives_one_history() -> None:
    assert history(1) == history(1)
    assert history(1) != history(2)
    one, other = SimDisk(1), SimDisk(2)
    busy(one)
    busy(other)
    assert one.trace == other.trace, "what a program asks for hangs on no seed while nothing fails"
    assert one.crash().files() != other.crash().files()


def test_the_history_does_not_hang_on_the_hash_seed() -> None:
    program = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_disk; print(test_disk.history(3))"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found == [f"{history(3)}\n"] * 2


# ---- kill and power cut


def test_lose_all_keeps_what_was_synced_and_only_that() -> None:
    disk = disk_with("/file", b"synced")
    disk.open("/file", write=True).write(3, [b"lost and more"])
    after = disk.crash("lose_all")
    assert after.files() == after.durable_files() == {"/file": b"synced"}


def test_keep_all_is_a_kill_and_what_it_keeps_is_still_not_durable() -> None:
    disk = disk_with("/file", b"synced")
    disk.open("/file", write=True).write(6, [b" cached"])
    disk.open("/new", write=True, create=True)
    killed = disk.crash("keep_all")
    assert killed.files() == {"/file": b"synced cached", "/new": b""}
    assert killed.crash("lose_all").files() == {"/file": b"synced"}
    killed = disk.crash("keep_all")
    killed.open("/file").sync()
    killed.sync_directory("/")
    assert killed.crash("lose_all").files() == {"/file": b"synced cached", "/new": b""}


def test_what_a_failed_sync_lost_stays_lost_after_a_kill() -> None:
    disk = disk_with("/file", b"synced")
    file = disk.open("/file", write=True)
    file.write(6, [b" lost"])
    disk.fail("sync")
    raises(errno.EIO, file.sync)
    killed = disk.crash("keep_all")
    assert killed.files() == {"/file": b"synced lost"}
    killed.open("/file").sync()
    assert killed.crash("lose_all").files() == {"/file": b"synced"}


def test_keep_names_lose_data_keeps_names_and_loses_data() -> None:
    disk = disk_with("/file", b"synced")
    disk.open("/file", write=True).write(6, [b" lost"])
    disk.open("/new", write=True, create=True).write(0, [b"lost"])
    after = disk.crash("keep_names_lose_data")
    assert after.files() == after.durable_files() == {"/file": b"synced", "/new": b""}


def test_after_a_random_crash_all_that_is_left_is_durable() -> None:
    for seed in range(30):
        disk = SimDisk(seed)
        busy(disk)
        after = disk.crash()
        assert after.files() == after.durable_files()
        assert after.crash().files() == after.files()


def test_the_disk_after_a_crash_shares_nothing_with_the_old_one() -> None:
    modes: list[CrashMode] = ["random", "lose_all", "keep_all", "keep_names_lose_data"]
    for mode in modes:
        disk = disk_with("/file", b"synced")
        after = disk.crash(mode)
        file = after.open("/file", write=True)
        file.write(0, [b"SYNCED"])
        file.sync()
        after.remove("/file")
        assert disk.files() == disk.durable_files() == {"/file": b"synced"}
        assert (after.operations, len(after.trace)) == (3, 3)


def test_a_crash_can_be_repeated_for_other_outcomes() -> None:
    disk = SimDisk(5)
    busy(disk)
    found = {tuple(sorted(disk.crash().files().items())) for _ in range(10)}
    assert len(found) == 10


def test_without_power_every_call_raises() -> None:
    disk = disk_with("/file", b"abc")
    file, lock = disk.open("/file", write=True), disk.lock("/lock")
    disk.crash()
    calls: list[Callable[[], object]] = [
        lambda: disk.open("/file"),
        lambda: disk.open("/other", write=True, create=True),
        lambda: disk.exists("/file"),
        lambda: disk.names("/"),
        lambda: disk.make_directory("/d"),
        lambda: disk.make_directory("/"),
        lambda: disk.rename("/file", "/other"),
        lambda: disk.remove("/file"),
        lambda: disk.sync_directory("/"),
        lambda: disk.free_bytes("/"),
        lambda: disk.lock("/lock"),
        lambda: file.read(0, 1),
        lambda: file.write(0, [b"x"]),
        lambda: file.truncate(0),
        file.size,
        file.sync,
        file.close,
        lock.release,
    ]
    for call in calls:
        with pytest.raises(PowerLost):
            call()
    assert disk.lost_power
    assert disk.files() == {"/file": b"abc", "/lock": b""}


def test_no_handler_for_exceptions_stops_a_power_cut() -> None:
    assert not issubclass(PowerLost, Exception)


def test_locks_end_with_the_process() -> None:
    modes: list[CrashMode] = ["lose_all", "keep_all"]
    for mode in modes:
        disk = disk_with("/lock", b"")
        disk.lock("/lock")
        disk.crash(mode).lock("/lock").release()


def test_the_power_can_be_cut_at_every_operation() -> None:
    for number in range(1, 12):
        disk = SimDisk(number)
        disk.crash_at(number)
        with pytest.raises(PowerLost, match=f"operation {number}:"):
            work(disk)
        assert disk.operations == number
        with pytest.raises(PowerLost):
            disk.exists("/")
        disk.crash().names("/")
    whole = SimDisk()
    whole.crash_at(12)
    work(whole)
    assert not whole.lost_power


def test_the_operation_at_the_cut_happens_or_not_or_in_part() -> None:
    written, synced, created = set(), set(), set()
    for seed in range(200):
        disk = disk_with("/file", b"", seed=seed)
        disk.crash_at(disk.operations + 1)
        with pytest.raises(PowerLost):
            disk.open("/file", write=True).write(0, [b"abcd"])
        written.add(disk.files()["/file"])

        disk = disk_with("/file", b"", seed=seed)
        disk.open("/file", write=True).write(0, [b"a" * 1024])
        disk.crash_at(disk.operations + 1)
        with pytest.raises(PowerLost):
            disk.open("/file", write=True).sync()
        synced.add(disk.durable_files()["/file"])

        disk = SimDisk(seed)
        disk.crash_at(1)
        with pytest.raises(PowerLost):
            disk.open("/file", write=True, create=True)
        created.add(len(disk.files()))
    assert written == {b"", b"a", b"ab", b"abc", b"abcd"}
    assert {b"", b"a" * 1024, b"a" * 512 + bytes(512)} <= synced
    assert created == {0, 1}


def test_a_cut_at_a_write_to_a_full_disk_is_a_cut() -> None:
    for seed in range(10):
        disk = disk_with("/file", b"abcd", seed=seed, capacity_bytes=6)
        disk.crash_at(disk.operations + 1)
        with pytest.raises(PowerLost):
            disk.open("/file", write=True).write(4, [b"efgh"])
        assert disk.lost_power


# ---- capacity


def test_a_full_disk_takes_what_fits_and_says_so() -> None:
    disk = disk_with("/file", b"abcd", capacity_bytes=10)
    assert disk.free_bytes("/") == 6
    file = disk.open("/file", write=True)
    raises(errno.ENOSPC, lambda: file.write(4, [b"efgh", b"ijkl"]))
    assert disk.files() == {"/file": b"abcdefghij"}
    assert disk.free_bytes("/") == 0
    raises(errno.ENOSPC, lambda: file.write(20, [b"x"]))
    assert file.size() == 10
    file.write(0, [b"ABCD"])
    assert file.read(0, 4) == b"ABCD"


def test_space_comes_back() -> None:
    disk = disk_with("/file", b"abcd", capacity_bytes=8)
    disk_file = disk.open("/file", write=True)
    disk.open("/other", write=True, create=True).write(0, [b"1234"])
    assert disk.free_bytes("/") == 0
    disk.remove("/other")
    assert disk.free_bytes("/") == 4
    disk_file.truncate(1)
    assert disk.free_bytes("/") == 7
    disk.open("/new", write=True, create=True).write(0, [b"12"])
    disk.rename("/new", "/file")
    assert disk.free_bytes("/") == 6
    disk.set_capacity(1)
    assert disk.free_bytes("/") == 0
    raises(errno.ENOSPC, lambda: disk.open("/file", write=True).write(2, [b"3"]))
    disk.set_capacity(None)
    disk.open("/file", write=True).write(2, [b"3"])


def test_a_crash_gives_the_space_of_lost_bytes_back() -> None:
    disk = disk_with("/file", b"abcd", capacity_bytes=10)
    disk.open("/file", write=True).write(4, [b"efgh"])
    assert disk.crash("keep_all").free_bytes("/") == 2
    after = disk.crash("lose_all")
    assert after.free_bytes("/") == 6
    disk = disk_with("/file", b"abcd", capacity_bytes=10)
    disk.remove("/file")
    after = disk.crash("lose_all")
    after.open("/file", write=True).write(4, [b"ef"])
    assert after.free_bytes("/") == 4


# ---- rot


def test_rot_changes_what_is_seen_and_what_is_durable() -> None:
    disk = disk_with("/file", b"abcdef")
    operations = disk.operations
    disk.flip_bit("/file", 0, 5)
    assert disk.files() == disk.durable_files() == {"/file": b"Abcdef"}
    disk.corrupt("/file", 2, b"XY")
    assert disk.files() == disk.durable_files() == {"/file": b"AbXYef"}
    disk.cut("/file", 3)
    assert disk.files() == disk.durable_files() == {"/file": b"AbX"}
    assert disk.open("/file").read(0, 10) == b"AbX"
    assert disk.operations == operations


def test_rot_cannot_miss() -> None:
    disk = disk_with("/file", b"abc")
    with pytest.raises(IndexError):
        disk.flip_bit("/file", 3, 0)
    with pytest.raises(AssertionError):
        disk.flip_bit("/file", 0, 8)
    with pytest.raises(AssertionError):
        disk.corrupt("/file", 2, b"xy")
    with pytest.raises(AssertionError):
        disk.cut("/file", 4)
    raises(errno.ENOENT, lambda: disk.corrupt("/missing", 0, b"x"))


# ---- the rest


def test_paths_are_absolute_however_they_are_spelled() -> None:
    disk = disk_with("log", b"x")
    assert disk.files() == {"/log": b"x"}
    assert disk.exists("/./log")
    assert disk.exists("//log")
    assert disk.names("") == disk.names("/") == ["log"]
    with pytest.raises(AssertionError):
        disk.exists("/a/../log")


def test_five_hundred_operations_take_milliseconds() -> None:
    best = 1.0
    for seed in range(3):
        start = time.perf_counter()
        disk = SimDisk(seed)
        file = disk.open("/file", write=True, create=True)
        for number in range(500):
            file.write(number * 200, [b"h" * 8, b"x" * 192])
            if number % 4 == 0:
                file.sync()
        disk.crash()
        best = min(best, time.perf_counter() - start)
    # It takes about 2 ms; the bound is wide because the machines that run this are busy.
    assert best < 0.1
