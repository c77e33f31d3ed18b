"""Snapshots of machines beside their logs: where to start when a log is folded again."""

from __future__ import annotations

from typing import NamedTuple

from flowmesh.base.errors import FlowMeshError
from flowmesh.format import names
from flowmesh.format import snapshot as snapshot_format
from flowmesh.format.names import FileKind
from flowmesh.format.snapshot import Snapshot
from flowmesh.log import directory as files
from flowmesh.log.segment import Segment
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


def save(disk: Disk, directory: str, view: LogView, state_version: int, state: bytes, *, sync: bool = False) -> None:
    """The state at the end of `view`. Without `sync` a power cut may damage it, and then it is not used: that is for
    what a whole log can tell again."""
    snapshot = Snapshot(state_version, view.chain.hash, view.end_offset, _last_block_hash(view), state)
    name = names.snapshot_name(view.end_offset)
    files.write_file(disk, directory, name, snapshot_format.encode(snapshot), sync=sync)
    for old in _names(disk, directory)[:-KEPT]:
        disk.remove(f"{directory}/{old}")


def _names(disk: Disk, directory: str) -> list[str]:
    return [name for name in disk.names(directory) if names.classify(name)[0] is FileKind.SNAPSHOT]


def _fits(snapshot: Snapshot, view: LogView) -> bool:
    if snapshot.chain_hash != view.chain.hash or not view.start_offset <= snapshot.end_offset <= view.end_offset:
        return False
    if snapshot.end_offset == view.end_offset:
        return snapshot.block_hash == _last_block_hash(view)
    if snapshot.end_offset == view.start_offset:
        return snapshot.block_hash == _block_hash_before(view.segments[0])
    try:
        block = view.read(snapshot.end_offset - 1, 1).blocks[0]
    except FlowMeshError:
        return False
    return block.end_offset == snapshot.end_offset and block.header.hash == snapshot.block_hash


def _last_block_hash(view: LogView) -> bytes:
    """Of the block that ends where the view ends, also when that is the last one of the segment before."""
    active = view.active
    return active.last_block_hash if active.blocks else _block_hash_before(active)


def _block_hash_before(segment: Segment) -> bytes:
    """At the beginning of a log, where there is no block, the hash of its segment."""
    return segment.header.previous_block_hash if segment.base_offset else segment.header.hash
