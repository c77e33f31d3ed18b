"""A log's directory: its small files read and written, and what its names say is there."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from flowmesh.format import names
from flowmesh.format.names import FileKind
from flowmesh.ports.disk import Disk


class Listing(NamedTuple):
    segments: tuple[int, ...]
    indexes: tuple[int, ...]
    temporary: tuple[str, ...]
    stray: tuple[str, ...]


def make_directory(disk: Disk, directory: str) -> None:
    """The directory and its missing parents, all of whose names are on the medium.

    Made and synced one by one from the top, so that a process killed in between leaves one unsynced name at most: the
    lowest directory that is there, whose parent is therefore synced as well. A chain file says that all of it is done.
    """
    path = directory.rstrip("/")
    if disk.exists(f"{path}/{names.CHAIN}"):
        return
    missing: list[str] = []
    while path and not disk.exists(path):
        missing.append(path)
        path = path.rpartition("/")[0]
    if path:
        with suppress(PermissionError):  # then the name was not put there by us
            disk.sync_directory(_parent(path))
    for made in reversed(missing):
        disk.make_directory(made)
        disk.sync_directory(_parent(made))


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


def listing(disk: Disk, directory: str) -> Listing:
    found: dict[FileKind, list[tuple[int, str]]] = {kind: [] for kind in FileKind}
    for name in disk.names(directory):
        kind, number = names.classify(name)
        found[kind].append((number, name))
    return Listing(
        tuple(sorted(number for number, _ in found[FileKind.SEGMENT])),
        tuple(sorted(number for number, _ in found[FileKind.INDEX])),
        tuple(name for _, name in found[FileKind.TEMPORARY]),
        tuple(name for _, name in found[FileKind.STRAY]),
    )


def read_file(disk: Disk, directory: str, name: str) -> bytes | None:
    try:
        file = disk.open(f"{directory}/{name}")
    except FileNotFoundError:
        return None
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def write_file(disk: Disk, directory: str, name: str, data: bytes, *, sync: bool = True) -> None:
    """The whole file or the old one, whatever happens. Without `sync` a power cut may leave it damaged or missing."""
    temporary = f"{directory}/{name}{names.TEMPORARY}"
    file = disk.open(temporary, write=True, create=True)
    try:
        file.truncate(0)
        file.write(0, [data])
        if sync:
            file.sync()
    finally:
        file.close()
    disk.rename(temporary, f"{directory}/{name}")
    if sync:
        disk.sync_directory(directory)
