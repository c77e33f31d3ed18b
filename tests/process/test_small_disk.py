"""A file system of 8 MiB that is really filled: refused early, read all the while, and healed without a restart."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowmesh.assemble import open_local_log, verify_local_log
from flowmesh.base.durability import ALWAYS, BATCH, Durability
from flowmesh.base.errors import DiskFull
from flowmesh.base.limits import KIB, MIB
from flowmesh.host.disk import RealDisk
from flowmesh.log.appender import Appender
from flowmesh.log.options import LogOptions
from flowmesh.log.retention import Retention
from flowmesh.log.sealing import Appended
from tests.process.values import batch, check_view

SEED = 7
APPENDS_MAX = 20_000
"""More than the file system holds, so that a disk that never fills up ends the test."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        command = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "flowmesh-test", str(place)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def options(reserve_bytes: int, durability: Durability = BATCH) -> LogOptions:
    return LogOptions(
        segment_bytes=256 * KIB, index_persist_bytes=128 * KIB, tail_cache_bytes=64 * KIB,
        disk_reserve_bytes=reserve_bytes, durability=durability,
    )  # fmt: skip


def append(log: Appender, count: int) -> DiskFull | None:
    """One append, acknowledged or refused for want of space; anything else is a failure of the test."""
    (result,) = log.write([batch(SEED, log.written_end, count)])
    if isinstance(result, DiskFull):
        return result
    assert isinstance(result, Appended), result
    log.sync()
    return None


def fill(log: Appender) -> DiskFull:
    for turn in range(APPENDS_MAX):
        refused = append(log, turn % 8 + 1)
        if refused is not None:
            return refused
    raise AssertionError("the disk never became full")


def require_sound_after_restart(log: Appender, directory: Path) -> None:
    end_offset = log.view.end_offset
    log.close()
    assert verify_local_log(directory).sound
    again = open_local_log(directory, options(0))
    try:
        assert again.view.end_offset == end_offset
        check_view(SEED, again.view)
    finally:
        again.close()


def test_the_reserve_refuses_early_and_freed_space_heals(small_disk: Path) -> None:
    directory, other = small_disk / "log", small_disk / "other"
    other.write_bytes(bytes(3 * MIB))
    reserve = 2 * MIB
    log = open_local_log(directory, options(reserve), create="small")
    fill(log)
    assert RealDisk().free_bytes(str(directory)) >= reserve - 128 * KIB
    full_at = log.view.end_offset
    for _ in range(20):
        assert isinstance(append(log, 8), DiskFull)
        check_view(SEED, log.view)
    assert log.view.end_offset == full_at
    assert log.failure is None
    other.unlink()
    assert append(log, 8) is None
    fill(log)
    assert log.view.end_offset > full_at
    require_sound_after_restart(log, directory)


def test_shorter_retention_heals_a_disk_that_is_full_up_to_the_reserve(small_disk: Path) -> None:
    log = open_local_log(small_disk / "log", options(1 * MIB), create="small")
    fill(log)
    for _ in range(5):
        assert log.trim(Retention(size_bytes=2 * MIB)) > 0
        assert append(log, 8) is None
        fill(log)
        check_view(SEED, log.view)
    require_sound_after_restart(log, small_disk / "log")


@pytest.mark.parametrize("durability", [ALWAYS, BATCH], ids=str)
@pytest.mark.parametrize("asked", [True, False], ids=["asked before", "space taken between question and write"])
def test_without_a_reserve_the_real_end_of_the_disk_loses_nothing(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, durability: Durability, asked: bool
) -> None:
    directory, other = small_disk / "log", small_disk / "other"
    other.write_bytes(bytes(5 * MIB))
    log = open_local_log(directory, options(0, durability), create="small")
    if not asked:
        monkeypatch.setattr(RealDisk, "free_bytes", lambda self, path: 2**40)
    causes = set()
    for step in range(4, -1, -1):
        refused = fill(log)
        causes.add(refused.__cause__.errno if isinstance(refused.__cause__, OSError) else 0)
        full_at = log.view.end_offset
        check_view(SEED, log.view)
        os.truncate(other, step * MIB + step * 1000)
        assert append(log, 1) is None, "freed space did not heal the log"
        assert log.view.end_offset > full_at
    if not asked:
        assert causes == {errno.ENOSPC}
    assert log.failure is None
    other.unlink()
    require_sound_after_restart(log, directory)


def test_a_full_disk_can_be_opened_and_read(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, other = small_disk / "log", small_disk / "other"
    other.write_bytes(bytes(2 * MIB))
    monkeypatch.setattr(RealDisk, "free_bytes", lambda self, path: 2**40)
    log = open_local_log(directory, options(0), create="small")
    fill(log)
    with other.open("ab", buffering=0) as file:
        for _ in range(10_000):
            try:
                file.write(bytes(4 * KIB))
            except OSError:
                break
    end_offset = log.view.end_offset
    log.close()
    again = open_local_log(directory, options(0))
    assert again.view.end_offset == end_offset
    check_view(SEED, again.view)
    assert isinstance(append(again, 8), DiskFull)
    other.unlink()
    assert append(again, 8) is None
    require_sound_after_restart(again, directory)
