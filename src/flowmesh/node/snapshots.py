"""Snapshots of machines beside their logs: where to start when a log is folded again."""

from __future__ import annotations

from typing import NamedTuple

from flowmesh.base.errors import FlowMeshError
from flowmesh.format import names
from flowmesh.format import snapshot as snapshot_format
from flowmesh.format.names import FileKind
from flowmesh.format.snapshot import Snapshot
from flowmesh.log import directory as files
from flowmesh.log.view import LogView
from flowmesh.ports.disk import Disk

KEPT = 2


class Restored(NamedTuple):
    """The state to start from (None: from nothing) and the first offset that it does not cover."""

    state: memoryview | None
    next_offset: int


def load(disk: Disk, directory: str, view: LogView, state_version: int) -> Restored:
    """The newest snapshot that is sound, of this machine's version and of this very history."""
    for name in reversed(_names(disk, directory)):
        data = files.read_file(disk, directory, name)
        found = snapshot_format.decode(data) if data is not None else None
        if found is not None and found.state_version == state_version and _fits(found, view):
            return Restored(memoryview(found.state), found.end_offset)
    return Restored(None, view.start_offset)


def save(disk: Disk, directory: str, view: LogView, state_version: int, state: bytes) -> None:
    """The state at the end of `view`. Not synced: a snapshot that a power cut damages is not used."""
    snapshot = Snapshot(state_version, view.chain.hash, view.end_offset, view.active.last_block_hash, state)
    name = names.snapshot_name(view.end_offset)
    files.write_file(disk, directory, name, snapshot_format.encode(snapshot), sync=False)
    for old in _names(disk, directory)[:-KEPT]:
        disk.remove(f"{directory}/{old}")


def _names(disk: Disk, directory: str) -> list[str]:
    return [name for name in disk.names(directory) if names.classify(name)[0] is FileKind.SNAPSHOT]


def _fits(snapshot: Snapshot, view: LogView) -> bool:
    if snapshot.chain_hash != view.chain.hash or not view.start_offset <= snapshot.end_offset <= view.end_offset:
        return False
    if snapshot.end_offset == view.end_offset:
        return snapshot.block_hash == view.active.last_block_hash
    if snapshot.end_offset == view.start_offset:
        return view.start_offset == 0
    try:
        block = view.read(snapshot.end_offset - 1, 1).blocks[0]
    except FlowMeshError:
        return False
    return block.end_offset == snapshot.end_offset and block.header.hash == snapshot.block_hash
