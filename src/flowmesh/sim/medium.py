"""What a simulated disk and its open files share: the one gate that every operation passes, where operations are
counted, the power is cut and faults strike. No system call is implemented here."""

from __future__ import annotations

import copy
import errno
import random
from collections.abc import Callable
from typing import Literal, TypeAlias

from flowmesh.sim.faults import Faults, os_error
from flowmesh.sim.names import DirectoryNode, FileNode, NameTree, Node, files

CrashMode: TypeAlias = Literal["random", "lose_all", "keep_all", "keep_names_lose_data"]
TraceEntry: TypeAlias = tuple[str | int, ...]

FREE_BYTES_UNLIMITED = 1 << 50


class PowerLost(BaseException):
    """The machine is off. Not an `Exception`: no handler of the code under test may survive a power cut."""


class Medium:
    def __init__(self, seed: int, capacity_bytes: int | None) -> None:
        self.chance = random.Random(seed)
        self.tree = NameTree()
        self.faults = Faults()
        self.operations = 0
        self.trace: list[TraceEntry] = []
        self.crash_at: int | None = None
        self.lost_power = False
        self.capacity_bytes = capacity_bytes
        self._used_bytes = 0

    def check_power(self) -> None:
        if self.lost_power:
            raise PowerLost("the power is off: this disk has crashed")

    def strike(self, operation: str, path: str) -> None:
        """Lets a fault hit an operation that changes nothing."""
        self.check_power()
        fault = self.faults.strike(operation, path)
        if fault is not None:
            raise os_error(fault.error, path)

    def operate(
        self,
        operation: str,
        path: str,
        arguments: TraceEntry,
        apply: Callable[[], None],
        fail: Callable[[bool], None] | None = None,
        cut: Callable[[], None] | None = None,
    ) -> None:
        """Runs one mutating operation, unless the power or a fault comes between. `fail` leaves behind what a failed
        call leaves, and is told whether a part of the work was done; `cut` does a part where a power cut differs."""
        self.check_power()
        self.operations += 1
        self.trace.append((operation, path, *arguments))
        if self.operations == self.crash_at:
            self._cut_power(apply, fail, cut)
            raise PowerLost(f"power cut at operation {self.operations}: {operation} {path}")
        fault = self.faults.strike(operation, path)
        if fault is not None:
            if fail is not None:
                fail(fault.partial)
            raise os_error(fault.error, path)
        apply()

    def _cut_power(
        self, apply: Callable[[], None], fail: Callable[[bool], None] | None, cut: Callable[[], None] | None
    ) -> None:
        """The operation took place, or did not, or in part. A sync that was cut short has not failed: a process that is
        killed in it takes nothing out of the cache."""
        outcome = self.chance.randrange(3 if fail is not None else 2)
        try:
            if outcome == 1:
                apply()
            elif outcome == 2 and cut is not None:
                cut()
            elif outcome == 2 and fail is not None:
                fail(True)
        except OSError:
            # A full disk, which nobody is left to hear of.
            pass
        self.lost_power = True

    def after_crash(self, mode: CrashMode) -> Medium:
        after = Medium(self.chance.getrandbits(64), self.capacity_bytes)
        after.tree = copy.deepcopy(self.tree)
        if mode != "keep_all":
            after._restart_machine(mode)
        for _, node in files(after.tree.root):
            node.locked = False
            node.linked = True
            after._used_bytes += len(node.content.visible)
        return after

    def _restart_machine(self, mode: CrashMode) -> None:
        if mode == "random":
            self.tree.keep_some_changes(self.chance)
        elif mode == "keep_names_lose_data":
            self.tree.keep_all_changes()
        else:
            assert mode == "lose_all", f"{mode!r} is no way to crash"
            self.tree.keep_no_changes()
        for _, node in files(self.tree.root):
            content = node.content
            content.settle(content.after_power_cut(self.chance) if mode == "random" else content.durable)

    def resized(self, node: FileNode, before: int) -> None:
        if node.linked:
            self._used_bytes += len(node.content.visible) - before

    def unlinked(self, node: Node | None) -> None:
        # Space is given back at once, although a real disk waits for the last open handle.
        if isinstance(node, FileNode):
            node.linked = False
            self._used_bytes -= len(node.content.visible)

    def space_left(self) -> int:
        if self.capacity_bytes is None:
            return FREE_BYTES_UNLIMITED
        return max(0, self.capacity_bytes - self._used_bytes)

    # ---- walking the names

    def node(self, path: str) -> Node:
        node: Node = self.tree.root
        for name in parts(path):
            if isinstance(node, FileNode):
                raise os_error(errno.ENOTDIR, path)
            below = node.entries.get(name)
            if below is None:
                raise os_error(errno.ENOENT, path)
            node = below
        return node

    def directory(self, path: str) -> DirectoryNode:
        node = self.node(path)
        if isinstance(node, FileNode):
            raise os_error(errno.ENOTDIR, path)
        return node

    def file(self, path: str) -> FileNode:
        node = self.node(path)
        if isinstance(node, DirectoryNode):
            raise os_error(errno.EISDIR, path)
        return node

    def parent(self, path: str) -> tuple[DirectoryNode, str]:
        """The directory that holds, or would hold, the last name of a path."""
        directory, _, name = path.rpartition("/")
        if not name:
            raise os_error(errno.EISDIR, path)
        return self.directory(directory), name


def parts(path: str) -> list[str]:
    names = [name for name in path.split("/") if name and name != "."]
    # Nothing in FlowMesh walks up a path; on this disk it would only hide a wrong one.
    assert ".." not in names, path
    return names


def canonical(path: str) -> str:
    return "/" + "/".join(parts(path))
