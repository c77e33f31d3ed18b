"""Taking old segments away: which may go, and in what order the disk is told, so that a crash leaves no doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flowmesh.format import floor as floor_format
from flowmesh.format import names
from flowmesh.format.floor import Floor
from flowmesh.log import directory as files
from flowmesh.log.retention import Retention
from flowmesh.log.segment import Segment
from flowmesh.ports.disk import Disk


def doomed(closed: Sequence[Segment], active: Segment, retention: Retention, holds: Mapping[str, int], now: int) -> int:
    """How many of the oldest closed segments may go. The active one never does."""
    size = sum(segment.end_position for segment in closed) + active.end_position
    held = min(holds.values(), default=active.end_offset)
    sound = 0
    for count, (segment, after) in enumerate(zip(closed, (*closed, active)[1:], strict=True), 1):
        too_old = retention.age_ns is not None and now - segment.last_timestamp_ns > retention.age_ns
        too_much = retention.size_bytes is not None and size > retention.size_bytes
        if segment.end_offset > held or not (too_old or too_much):
            break
        size -= segment.end_position
        # What lies between two that are not neighbours is quarantined: kept until something after it goes, too.
        sound = count if after.number == segment.number + 1 else sound
    return sound


def write_floor(disk: Disk, directory: str, first: Segment) -> None:
    """From here on the log begins with `first`. Synced before anything is removed; the chain keeps its anchor in it."""
    header = first.header
    floor = Floor(
        first.number, header.base_offset, header.previous_segment_hash.hex(), header.previous_block_hash.hex()
    )
    files.write_file(disk, directory, names.FLOOR, floor_format.encode(floor))


def remove(disk: Disk, directory: str, segments: Sequence[Segment]) -> None:
    remove_indexes(disk, directory, segments)
    for segment in segments:
        _remove_if_there(disk, f"{directory}/{names.segment_name(segment.number)}")


def remove_indexes(disk: Disk, directory: str, segments: Sequence[Segment]) -> None:
    for segment in segments:
        _remove_if_there(disk, f"{directory}/{names.index_name(segment.number)}")


def _remove_if_there(disk: Disk, path: str) -> None:
    if disk.exists(path):
        disk.remove(path)
