"""The directory tree of a simulated disk, and which of its names a power cut leaves. No contents and no faults here."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from flowmesh.sim.volatile import FileContent


@dataclass(slots=True, eq=False)
class FileNode:
    """A file apart from its name: an open handle holds on to it when the name goes."""

    content: FileContent = field(default_factory=FileContent)
    linked: bool = True
    locked: bool = False


@dataclass(slots=True, eq=False)
class DirectoryNode:
    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)


Node: TypeAlias = FileNode | DirectoryNode


@dataclass(slots=True, eq=False)
class NameChange:
    """One create, rename or remove: all of its links change together, or none does."""

    links: list[tuple[DirectoryNode, str, Node | None]]
    unsynced: list[DirectoryNode]
    """The directories that have to be synced before a power cut cannot undo this."""

    def touched(self) -> list[tuple[int, str]]:
        return [(id(directory), name) for directory, name, _ in self.links]

    def commit(self) -> None:
        for directory, name, node in self.links:
            _link(directory.durable, name, node)


@dataclass(slots=True)
class NameTree:
    """The names as a reader sees them (`entries`), as the medium has them (`durable`), and the changes between.

    Changes that touch one name keep their order, also on the medium: a rename is never there without the create
    before it. Changes of different names overtake each other freely.
    """

    root: DirectoryNode = field(default_factory=DirectoryNode)
    changes: list[NameChange] = field(default_factory=list)

    def change(self, *links: tuple[DirectoryNode, str, Node | None]) -> None:
        unsynced: list[DirectoryNode] = []
        for directory, name, node in links:
            _link(directory.entries, name, node)
            if directory not in unsynced:
                unsynced.append(directory)
        self.changes.append(NameChange(list(links), unsynced))

    def sync(self, directory: DirectoryNode) -> None:
        for change in self.changes:
            if directory in change.unsynced:
                change.unsynced.remove(directory)
        needed: set[tuple[int, str]] = set()
        commit: list[NameChange] = []
        keep: list[NameChange] = []
        for change in reversed(self.changes):
            if not change.unsynced or any(key in needed for key in change.touched()):
                needed.update(change.touched())
                commit.append(change)
            else:
                keep.append(change)
        for change in reversed(commit):
            change.commit()
        self.changes = keep[::-1]

    def forget_unsynced(self, directory: DirectoryNode) -> None:
        """A failed fsync of a directory: its changes stay visible, and no later sync makes them durable."""
        self.changes = [change for change in self.changes if directory not in change.unsynced]

    def keep_all_changes(self) -> None:
        for change in self.changes:
            change.commit()
        self._settle()

    def keep_no_changes(self) -> None:
        self._settle()

    def keep_some_changes(self, chance: random.Random) -> None:
        odds = chance.choice((0.0, 0.5, 0.5, 0.9, 1.0))
        lost: set[tuple[int, str]] = set()
        for change in self.changes:
            if chance.random() < odds and not any(key in lost for key in change.touched()):
                change.commit()
            else:
                lost.update(change.touched())
        self._settle()

    def _settle(self) -> None:
        self.changes = []
        for _, directory in directories(self.root, durable=True):
            directory.entries = dict(directory.durable)


def files(directory: DirectoryNode, *, durable: bool = False, path: str = "") -> Iterator[tuple[str, FileNode]]:
    """All files below a directory with their paths, sorted within each directory."""
    entries = directory.durable if durable else directory.entries
    for name in sorted(entries):
        node = entries[name]
        if isinstance(node, DirectoryNode):
            yield from files(node, durable=durable, path=f"{path}/{name}")
        else:
            yield f"{path}/{name}", node


def directories(
    directory: DirectoryNode, *, durable: bool = False, path: str = ""
) -> Iterator[tuple[str, DirectoryNode]]:
    """The directory itself and all below it, with their paths."""
    yield path or "/", directory
    entries = directory.durable if durable else directory.entries
    for name in sorted(entries):
        node = entries[name]
        if isinstance(node, DirectoryNode):
            yield from directories(node, durable=durable, path=f"{path}/{name}")


def _link(entries: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node
