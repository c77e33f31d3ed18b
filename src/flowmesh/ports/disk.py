"""The operating system's files, as the cores see them: the only way from the log to a disk.

Every method raises `OSError` as the operating system would, with its errno. Paths are plain strings with `/`.
Names that were created, renamed or removed survive a power cut only after `sync_directory` of their directory;
contents survive only after `sync` of their file. The simulated disk takes both rules at their word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flowmesh.base.buffers import Buffer


class File(Protocol):
    def size(self) -> int: ...

    def read(self, position: int, length: int) -> bytes:
        """`length` bytes; fewer only at the end of the file."""
        ...

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """All buffers, one behind the other, from `position`; all of it, or it raises."""
        ...

    def sync(self) -> None:
        """Contents and size are on the medium when this returns. May be called from another thread than `write`."""
        ...

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    def open(self, path: str, *, write: bool = False, create: bool = False) -> File:
        """`create` makes the file when it is missing; without it a missing file is `FileNotFoundError`."""
        ...

    def exists(self, path: str) -> bool: ...

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Makes the directory and its parents, readable by the owner alone; no error when it is there."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """Removes an empty directory."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def free_bytes(self, path: str) -> int: ...

    def lock(self, path: str) -> Lock:
        """Takes the lock file at `path`, or raises `BlockingIOError` when another holder lives."""
        ...
