"""A disk that passes everything on and keeps account: what was read, what was synced, how many files are open."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from flowmesh.base.buffers import Buffer
from flowmesh.host.disk import RealDisk
from flowmesh.ports.disk import Disk, File, Lock


def _ignore(_name: str) -> None:
    """Nobody waits for this."""


class WatchedFile:
    def __init__(self, disk: WatchedDisk, name: str, file: File) -> None:
        self._disk = disk
        self._name = name
        self._file = file
        disk.open_files[name] += 1
        self._counted = True

    def size(self) -> int:
        return self._file.size()

    def read(self, position: int, length: int) -> bytes:
        data = self._file.read(position, length)
        self._disk.reads.append((self._name, position, length))
        return data

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        try:
            self._disk.strike("write", self._name)
        except OSError:
            data = b"".join(bytes(buffer) for buffer in buffers)
            self._file.write(position, [data[: len(data) // 2]])  # a write that fails has often done a part
            raise
        self._file.write(position, buffers)

    def sync(self) -> None:
        self._disk.syncs[self._name] += 1
        self._disk.on_sync(self._name)
        self._disk.strike("sync", self._name)
        self._file.sync()

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()
        if self._counted:
            self._counted = False
            self._disk.open_files[self._name] -= 1

    def __del__(self) -> None:
        self.close()


class WatchedDisk:
    """Names are the last part of each path."""

    def __init__(self, disk: Disk | None = None) -> None:
        self._disk = disk or RealDisk()
        self.reads: list[tuple[str, int, int]] = []
        self.syncs: Counter[str] = Counter()
        self.open_files: Counter[str] = Counter()
        self.on_sync: Callable[[str], None] = _ignore
        self.failing: dict[tuple[str, str], int] = {}
        """By operation and end of the name: the errno it meets."""
        self.free: int | None = None

    def strike(self, operation: str, name: str) -> None:
        for (wanted, ending), number in self.failing.items():
            if wanted == operation and name.endswith(ending):
                raise OSError(number, os.strerror(number))

    def open(self, path: str, *, write: bool = False, create: bool = False) -> WatchedFile:
        name = PurePosixPath(path).name
        self.strike("open", name)
        return WatchedFile(self, name, self._disk.open(path, write=write, create=create))

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def names(self, directory: str) -> list[str]:
        self.strike("names", directory)
        return self._disk.names(directory)

    def make_directory(self, path: str) -> None:
        self._disk.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self._disk.rename(old, new)

    def remove(self, path: str) -> None:
        self._disk.remove(path)

    def remove_directory(self, path: str) -> None:
        self._disk.remove_directory(path)

    def sync_directory(self, path: str) -> None:
        self._disk.sync_directory(path)

    def free_bytes(self, path: str) -> int:
        self.strike("free_bytes", path)
        return self._disk.free_bytes(path) if self.free is None else self.free

    def lock(self, path: str) -> Lock:
        return self._disk.lock(path)

    def read_from(self, ending: str) -> list[tuple[int, int]]:
        return [(position, length) for name, position, length in self.reads if name.endswith(ending)]


NO_SPACE = errno.ENOSPC
IO_ERROR = errno.EIO
