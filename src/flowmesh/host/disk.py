"""The operating system's files behind `ports.disk`. Here is every system call on a file, and no knowledge of what is
in one."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence

from flowmesh.base.buffers import Buffer

IOV_MAX = 1024
"""The most buffers that one `pwritev` takes (`UIO_MAXIOV` of Linux)."""

_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700


class RealFile:
    """One descriptor. Python repeats every call below that a signal interrupts (PEP 475).

    A file that several threads read is dropped, not closed: the descriptor is closed with the last reference, so no
    thread can meet a number that the system has given to another file meanwhile. `close` is for a sole owner.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, position: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        remaining = length - len(data)
        # The system may return less than it has (at most 2 GiB a call), so only an empty read proves the end.
        while remaining and (data := os.pread(self._descriptor, remaining, position + length - remaining)):
            parts.append(data)
            remaining -= len(data)
        return b"".join(parts)

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        if position < 0:
            # Python calls `pwritev2`, for which -1 is no error but means the descriptor's own position.
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if len(buffers) <= IOV_MAX:
            total = sum([_size(buffer) for buffer in buffers])
            if not total:
                return
            written = os.pwritev(self._descriptor, buffers, position)
            if written == total:
                return
        else:
            written = 0
        self._write_rest(position, written, buffers)

    def _write_rest(self, position: int, written: int, buffers: Sequence[Buffer]) -> None:
        # Empty views are left out because a view with a zero in its shape cannot be cast.
        views = [memoryview(buffer).cast("B") for buffer in buffers if _size(buffer)]
        first = 0
        while True:
            position += written
            while first < len(views) and written >= len(views[first]):
                written -= len(views[first])
                first += 1
            if first == len(views):
                return
            views[first] = views[first][written:]
            written = os.pwritev(self._descriptor, views[first : first + IOV_MAX], position)
            if not written:
                raise OSError(errno.EIO, "the device takes no more bytes and gives no reason")

    def sync(self) -> None:
        # Never repeated on failure: the kernel marks the lost pages clean, and a second call would report success.
        if self._descriptor < 0:
            # The one call here for which Python refuses a closed descriptor with a ValueError.
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class RealLock:
    """An `flock` on a descriptor of its own. The kernel drops it with the process, however that ends.

    It is not released by garbage collection: a lock that nobody happens to refer to must not let a second writer in.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class RealDisk:
    """The file system of this machine."""

    def open(self, path: str, *, write: bool = False, create: bool = False) -> RealFile:
        flags = os.O_CLOEXEC | (os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if create else 0)
        return RealFile(os.open(path, flags, _FILE_MODE))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def names(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def make_directory(self, path: str) -> None:
        # `os.makedirs` gives its mode to the last directory only, and the parents must be as private.
        try:
            os.mkdir(path, _DIRECTORY_MODE)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        except FileNotFoundError:
            parent = os.path.dirname(path.rstrip("/"))
            if not parent or os.path.isdir(parent):
                raise
            self.make_directory(parent)
            self.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        # What root may use beyond this is a reserve that keeps the machine alive, so root is not treated better here.
        numbers = os.statvfs(path)
        return numbers.f_bavail * numbers.f_frsize

    def lock(self, path: str) -> RealLock:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
        return RealLock(descriptor)


def _size(buffer: Buffer) -> int:
    # The length of a view counts its items, which need not be bytes.
    return buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)
