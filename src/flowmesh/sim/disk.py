"""A disk in memory that keeps only what was synced. It implements `ports.Disk` call by call, breaks on order, and
knows nothing of what is stored on it."""

from __future__ import annotations

import errno

from flowmesh.sim.faults import os_error
from flowmesh.sim.handles import SimFile, SimLock
from flowmesh.sim.medium import CrashMode, Medium, PowerLost, TraceEntry, canonical, parts
from flowmesh.sim.names import DirectoryNode, FileNode, Node, directories, files

__all__ = ["CrashMode", "PowerLost", "SimDisk", "TraceEntry"]


class SimDisk:
    """One seed gives one history. Paths are absolute: `a/b` and `/a/b` are one file, reported as `/a/b`."""

    def __init__(self, seed: int = 0, *, capacity_bytes: int | None = None) -> None:
        self._medium = Medium(seed, capacity_bytes)

    # ---- ports.Disk

    def open(self, path: str, *, write: bool = False, create: bool = False) -> SimFile:
        path = canonical(path)
        self._medium.strike("open", path)
        parent, name = self._medium.parent(path)
        node = parent.entries.get(name)
        if node is None:
            if not create:
                raise os_error(errno.ENOENT, path)
            node = self._create(path, parent, name)
        if isinstance(node, DirectoryNode):
            raise os_error(errno.EISDIR, path)
        return SimFile(self._medium, path, node, write)

    def exists(self, path: str) -> bool:
        self._medium.check_power()
        try:
            self._medium.node(path)
        except OSError:
            return False
        return True

    def names(self, directory: str) -> list[str]:
        self._medium.strike("names", canonical(directory))
        return sorted(self._medium.directory(directory).entries)

    def make_directory(self, path: str) -> None:
        self._medium.check_power()
        directory = self._medium.tree.root
        reached = ""
        names = parts(path)
        for depth, name in enumerate(names, 1):
            reached = f"{reached}/{name}"
            node = directory.entries.get(name)
            if isinstance(node, FileNode):
                raise os_error(errno.EEXIST if depth == len(names) else errno.ENOTDIR, path)
            if node is None:
                node = DirectoryNode()
                self._add("make_directory", reached, directory, name, node)
            directory = node

    def rename(self, old: str, new: str) -> None:
        self._medium.check_power()
        old, new = canonical(old), canonical(new)
        old_parent, old_name = self._medium.parent(old)
        new_parent, new_name = self._medium.parent(new)
        node = old_parent.entries.get(old_name)
        if node is None:
            raise os_error(errno.ENOENT, old)
        replaced = new_parent.entries.get(new_name)
        _check_replacement(node, replaced, new_parent, new)

        def apply() -> None:
            if node is not replaced:
                # Both links change as one, so that the node is found by one of its two names at any time.
                self._medium.tree.change((new_parent, new_name, node), (old_parent, old_name, None))
                self._medium.unlinked(replaced)

        self._medium.operate("rename", old, (new,), apply)

    def remove(self, path: str) -> None:
        self._medium.check_power()
        path = canonical(path)
        node = self._medium.file(path)
        parent, name = self._medium.parent(path)

        def apply() -> None:
            self._medium.tree.change((parent, name, None))
            self._medium.unlinked(node)

        self._medium.operate("remove", path, (), apply)

    def remove_directory(self, path: str) -> None:
        self._medium.check_power()
        path = canonical(path)
        if self._medium.directory(path).entries:
            raise os_error(errno.ENOTEMPTY, path)
        parent, name = self._medium.parent(path)
        self._medium.operate("remove_directory", path, (), lambda: self._medium.tree.change((parent, name, None)))

    def sync_directory(self, path: str) -> None:
        self._medium.check_power()
        directory = self._medium.directory(path)
        tree = self._medium.tree

        def fail(partial: bool) -> None:
            if partial:
                cut()
            tree.forget_unsynced(directory)

        def cut() -> None:
            if self._medium.chance.random() < 0.5:
                tree.sync(directory)

        self._medium.operate("sync_directory", canonical(path), (), lambda: tree.sync(directory), fail, cut)

    def free_bytes(self, path: str) -> int:
        self._medium.strike("free_bytes", canonical(path))
        self._medium.node(path)
        return self._medium.space_left()

    def lock(self, path: str) -> SimLock:
        path = canonical(path)
        self._medium.strike("lock", path)
        parent, name = self._medium.parent(path)
        node = parent.entries.get(name) or self._create(path, parent, name)
        if isinstance(node, DirectoryNode):
            raise os_error(errno.EISDIR, path)
        if node.locked:
            raise os_error(errno.EAGAIN, path)
        node.locked = True
        return SimLock(self._medium, node)

    def _create(self, path: str, parent: DirectoryNode, name: str) -> FileNode:
        node = FileNode()
        self._add("create", path, parent, name, node)
        return node

    def _add(self, operation: str, path: str, parent: DirectoryNode, name: str, node: Node) -> None:
        self._medium.operate(operation, path, (), lambda: self._medium.tree.change((parent, name, node)))

    # ---- orders to break

    def crash_at(self, operation: int) -> None:
        """Cuts the power in the middle of the mutating operation with this number: it raises `PowerLost`, and so does
        every later call. Whether it had an effect, and how much of a write or a sync got through, the seed decides."""
        assert operation > self._medium.operations, "that operation is over"
        self._medium.crash_at = operation

    def crash(self, mode: CrashMode = "random") -> SimDisk:
        """The disk as the next start finds it. This one is off from now on; crashing it again gives other outcomes.

        `random`: a power cut, one of its many outcomes. `lose_all`: all that was not synced is gone.
        `keep_names_lose_data`: the names are there, the unsynced data are not. `keep_all`: kill -9; the cache outlives
        the process, so what was not synced is seen and is still not durable.
        """
        self._medium.lost_power = True
        after = SimDisk()
        after._medium = self._medium.after_crash(mode)
        return after

    def fail(
        self,
        operation: str,
        *,
        nth: int = 1,
        times: int = 1,
        error: int = errno.EIO,
        partial: bool = False,
        path: str = "*",
    ) -> None:
        """The `nth` such call from now, and the `times - 1` after it, raise `OSError(error)`. Only calls whose path
        matches the glob count. With `partial`, a write writes and a sync syncs a part before it fails."""
        glob = path if path.startswith(("*", "/")) else f"/{path}"
        self._medium.faults.add(operation, nth=nth, times=times, error=error, partial=partial, path=glob)

    def heal(self) -> None:
        """No further faults, and no power cut ahead. What was lost stays lost."""
        self._medium.faults.clear()
        self._medium.crash_at = None

    def set_capacity(self, capacity_bytes: int | None) -> None:
        self._medium.capacity_bytes = capacity_bytes

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Rot of one bit, on the medium and in the cache."""
        assert 0 <= bit < 8
        content = self._medium.file(path).content
        content.damage(position, bytes([content.visible[position] ^ (1 << bit)]))

    def corrupt(self, path: str, position: int, data: bytes) -> None:
        """Rot of a range, on the medium and in the cache."""
        self._medium.file(path).content.damage(position, data)

    def cut(self, path: str, size: int) -> None:
        """The end of a file is lost, on the medium and in the cache."""
        node = self._medium.file(path)
        before = len(node.content.visible)
        assert 0 <= size <= before, "rot does not make a file longer"
        node.content.cut(size)
        self._medium.resized(node, before)

    # ---- what is there; all of this works without power, too

    @property
    def operations(self) -> int:
        """How many mutating operations were begun. The first has number 1."""
        return self._medium.operations

    @property
    def trace(self) -> list[TraceEntry]:
        """One entry per mutating operation: its name, its path, and what tells its arguments apart."""
        return self._medium.trace

    @property
    def lost_power(self) -> bool:
        return self._medium.lost_power

    @property
    def faults_waiting(self) -> int:
        """How many orders of `fail` have not struck as often as they should. Not zero: the test proved nothing."""
        return self._medium.faults.waiting

    @property
    def faults_struck(self) -> list[str]:
        """The paths of the calls that have failed because they were ordered to, in order."""
        return self._medium.faults.struck

    @property
    def capacity_bytes(self) -> int | None:
        return self._medium.capacity_bytes

    def files(self) -> dict[str, bytes]:
        """Every file as a reader sees it."""
        return {path: bytes(node.content.visible) for path, node in files(self._medium.tree.root)}

    def durable_files(self) -> dict[str, bytes]:
        """Every file as `lose_all` leaves it."""
        return {path: bytes(node.content.durable) for path, node in files(self._medium.tree.root, durable=True)}

    def durable_directories(self) -> list[str]:
        return [path for path, _ in directories(self._medium.tree.root, durable=True)]


def _check_replacement(node: Node, replaced: Node | None, new_parent: DirectoryNode, new: str) -> None:
    if isinstance(node, FileNode):
        if isinstance(replaced, DirectoryNode):
            raise os_error(errno.EISDIR, new)
    elif isinstance(replaced, FileNode):
        raise os_error(errno.ENOTDIR, new)
    elif replaced is not None and replaced is not node and replaced.entries:
        raise os_error(errno.ENOTEMPTY, new)
    elif any(new_parent is below for _, below in directories(node)):
        raise os_error(errno.EINVAL, new)
