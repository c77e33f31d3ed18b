"""The real disk where it differs from any other: modes, partial system calls, descriptors, locks of dead processes."""

import errno
import gc
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from flowmesh.base.buffers import Buffer
from flowmesh.host.disk import IOV_MAX, RealDisk, RealFile, RealLock
from flowmesh.ports.disk import Disk, File, Lock

DISK: Disk = RealDisk()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def descriptors() -> int:
    # Files that earlier tests left in reference cycles must not go while this one counts.
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_implements_the_ports(tmp_path: Path) -> None:
    file: File = RealDisk().open(str(tmp_path / "file"), write=True, create=True)
    lock: Lock = RealDisk().lock(str(tmp_path / "lock"))
    assert isinstance(file, RealFile)
    assert isinstance(lock, RealLock)
    lock.release()


def test_files_and_directories_are_the_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        DISK.make_directory(str(tmp_path / "a/b/c"))
        DISK.open(str(tmp_path / "a/file"), write=True, create=True)
        DISK.lock(str(tmp_path / "a/lock")).release()
    finally:
        os.umask(before)
    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c")] == [0o700] * 3
    assert [mode(tmp_path / name) for name in ("a/file", "a/lock")] == [0o600] * 2


def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "file"), write=True, create=True)
    lock = RealDisk().lock(str(tmp_path / "lock"))
    assert not os.get_inheritable(file._descriptor)
    assert not os.get_inheritable(lock._descriptor)
    lock.release()


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
@pytest.mark.parametrize("count", [5, IOV_MAX, IOV_MAX + 5])
def test_partial_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, count: int) -> None:
    def few_bytes(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
        assert len(buffers) <= IOV_MAX
        return os.pwrite(descriptor, b"".join(buffers)[:step], position)

    monkeypatch.setattr(os, "pwritev", few_bytes)
    buffers = [b"" if number % 5 == 2 else b"<%d>" % number for number in range(count)]
    file = DISK.open(str(tmp_path / "file"), write=True, create=True)
    file.write(4, buffers)
    assert (tmp_path / "file").read_bytes() == b"\0\0\0\0" + b"".join(buffers)


def test_a_write_that_stands_still_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwritev", lambda descriptor, buffers, position: 0)
    file = DISK.open(str(tmp_path / "file"), write=True, create=True)
    with pytest.raises(OSError, match="no more bytes") as caught:
        file.write(0, [b"abc"])
    assert caught.value.errno == errno.EIO


def test_an_error_after_a_partial_write_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
        if position >= 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.pwrite(descriptor, b"".join(buffers)[:3], position)

    monkeypatch.setattr(os, "pwritev", full)
    file = DISK.open(str(tmp_path / "file"), write=True, create=True)
    with pytest.raises(OSError, match="No space"):
        file.write(0, [b"abcdef"])
    assert (tmp_path / "file").read_bytes() == b"abc"


def test_partial_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(bytes(range(100)))
    file = DISK.open(str(tmp_path / "file"))
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, length, position: real(descriptor, min(length, 7), position))
    assert file.read(10, 50) == bytes(range(10, 60))
    assert file.read(90, 50) == bytes(range(90, 100))


def test_a_whole_read_is_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    file = DISK.open(str(tmp_path / "file"))
    calls: list[int] = []
    real = os.pread

    def counted(descriptor: int, length: int, position: int) -> bytes:
        calls.append(length)
        return real(descriptor, length, position)

    monkeypatch.setattr(os, "pread", counted)
    file.read(0, 3)
    assert calls == [3]


def test_sync_reaches_the_medium_and_a_failure_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []

    def fail(descriptor: int) -> None:
        synced.append(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", fail)
    monkeypatch.setattr(os, "fsync", fail)
    file = RealDisk().open(str(tmp_path / "file"), write=True, create=True)
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    assert synced == [file._descriptor]
    with pytest.raises(OSError, match="Input/output"):
        DISK.sync_directory(str(tmp_path))
    assert len(synced) == 2


def test_a_dropped_file_closes_its_descriptor(tmp_path: Path) -> None:
    before = descriptors()
    file = DISK.open(str(tmp_path / "file"), write=True, create=True)
    shared = file
    assert descriptors() == before + 1
    del file
    gc.collect()
    assert shared.size() == 0
    del shared
    assert descriptors() == before


def test_close_never_closes_a_reused_descriptor(tmp_path: Path) -> None:
    first = RealDisk().open(str(tmp_path / "first"), write=True, create=True)
    number = first._descriptor
    first.close()
    second = RealDisk().open(str(tmp_path / "second"), write=True, create=True)
    assert second._descriptor == number
    first.close()
    del first
    gc.collect()
    assert second.size() == 0


def test_nothing_leaks_when_calls_fail(tmp_path: Path) -> None:
    lock = DISK.lock(str(tmp_path / "lock"))
    (tmp_path / "file").touch()
    before = descriptors()
    for _ in range(5):
        with pytest.raises(BlockingIOError):
            DISK.lock(str(tmp_path / "lock"))
        with pytest.raises(NotADirectoryError):
            DISK.sync_directory(str(tmp_path / "file"))
    DISK.sync_directory(str(tmp_path))
    assert descriptors() == before
    lock.release()
    lock.release()
    assert descriptors() == before - 1


def test_a_lock_outlives_its_forgotten_object(tmp_path: Path) -> None:
    lock = RealDisk().lock(str(tmp_path / "lock"))
    descriptor = lock._descriptor
    del lock
    gc.collect()
    with pytest.raises(BlockingIOError):
        DISK.lock(str(tmp_path / "lock"))
    os.close(descriptor)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    program = (
        "import sys, time; from flowmesh.host.disk import RealDisk\n"
        "lock = RealDisk().lock(sys.argv[1]); sys.stdout.write('held\\n'); sys.stdout.flush(); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError):
            DISK.lock(path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        DISK.lock(path).release()


def test_free_bytes_leaves_out_what_only_root_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda path: numbers)
    assert DISK.free_bytes(str(tmp_path)) == numbers.f_bavail * numbers.f_frsize


def test_make_directory_reports_what_it_cannot_make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    DISK.make_directory("relative/below")
    assert (tmp_path / "relative/below").is_dir()
    with pytest.raises(FileNotFoundError):
        DISK.make_directory("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        DISK.make_directory(str(tmp_path / "dangling"))
