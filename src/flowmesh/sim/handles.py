"""Open files and held locks of a simulated disk. They stay with their file when its name changes or goes, as a
descriptor does; what a name is, they do not know."""

from __future__ import annotations

import errno
import zlib
from collections.abc import Sequence

from flowmesh.base.buffers import Buffer
from flowmesh.sim.faults import os_error
from flowmesh.sim.medium import Medium
from flowmesh.sim.names import FileNode


class SimFile:
    def __init__(self, medium: Medium, path: str, node: FileNode, writable: bool) -> None:
        self._medium = medium
        self._path = path
        self._node = node
        self._writable = writable
        self._closed = False

    def size(self) -> int:
        self._check()
        return len(self._node.content.visible)

    def read(self, position: int, length: int) -> bytes:
        self._check()
        self._medium.strike("read", self._path)
        if position < 0 or length < 0:
            raise os_error(errno.EINVAL, self._path)
        return bytes(memoryview(self._node.content.visible)[position : position + length])

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        self._check(writing=True)
        if position < 0:
            raise os_error(errno.EINVAL, self._path)
        data = b"".join(buffers)

        def apply() -> None:
            fits = len(self._node.content.visible) + self._medium.space_left() - position
            self._put(position, data[: max(0, fits)])
            if fits < len(data):
                raise os_error(errno.ENOSPC, self._path)

        def fail(partial: bool) -> None:
            if partial and data:
                self._put(position, data[: self._medium.chance.randrange(len(data))])

        self._medium.operate("write", self._path, (position, len(data), zlib.crc32(data)), apply, fail)

    def sync(self) -> None:
        self._check()
        content = self._node.content

        def fail(partial: bool) -> None:
            if partial:
                content.sync_partly(self._medium.chance)
            else:
                content.forget_unsynced()

        def cut() -> None:
            content.durable = content.after_power_cut(self._medium.chance)

        self._medium.operate("sync", self._path, (len(content.visible),), content.sync, fail, cut)

    def truncate(self, size: int) -> None:
        self._check(writing=True)
        if size < 0:
            raise os_error(errno.EINVAL, self._path)

        def apply() -> None:
            before = len(self._node.content.visible)
            self._node.content.truncate(size)
            self._medium.resized(self._node, before)

        self._medium.operate("truncate", self._path, (size,), apply)

    def close(self) -> None:
        self._medium.check_power()
        self._closed = True

    def _put(self, position: int, data: bytes) -> None:
        before = len(self._node.content.visible)
        self._node.content.write(position, data)
        self._medium.resized(self._node, before)

    def _check(self, *, writing: bool = False) -> None:
        self._medium.check_power()
        if self._closed or (writing and not self._writable):
            raise os_error(errno.EBADF, self._path)


class SimLock:
    def __init__(self, medium: Medium, node: FileNode) -> None:
        self._medium = medium
        self._node: FileNode | None = node

    def release(self) -> None:
        self._medium.check_power()
        if self._node is not None:
            self._node.locked = False
            self._node = None
