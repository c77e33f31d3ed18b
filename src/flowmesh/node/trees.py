"""Removing whole directories through the disk port."""

from __future__ import annotations

from flowmesh.ports.disk import Disk


def remove_tree(disk: Disk, directory: str) -> None:
    """The directory and everything below it; nothing happens when it is not there. May be repeated after a crash."""
    if not disk.exists(directory):
        return
    for name in disk.names(directory):
        path = f"{directory}/{name}"
        if is_directory(disk, path):
            remove_tree(disk, path)
        else:
            disk.remove(path)
    disk.remove_directory(directory)


def is_directory(disk: Disk, path: str) -> bool:
    try:
        disk.names(path)
    except NotADirectoryError:
        return False
    return True
