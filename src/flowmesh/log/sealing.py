"""Batches as chained entries: offsets, times, hashes and checksums. It writes nothing and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import NamedTuple

from flowmesh.base.durability import Durability
from flowmesh.base.times import UNSTAMPED
from flowmesh.format import batch as batches
from flowmesh.format import block as blocks
from flowmesh.format.batch import Batch
from flowmesh.log.options import LogOptions
from flowmesh.log.segment import Segment


class Appended(NamedTuple):
    """Where a batch went. Durable only once a sync that began after the write has succeeded."""

    base_offset: int
    end_offset: int
    timestamp_ns: int
    segment: int
    block_hash: bytes
    durability: Durability
    """What the acknowledgement of this append promises."""


class SealedRun(NamedTuple):
    """Entries for one write, and the state of the active segment once they are written."""

    entries: list[bytes]
    appended: list[Appended]
    positions: list[int]
    times_before: list[int]
    after: Segment


class Ahead(NamedTuple):
    """A run that was sealed before the write that brings its batches."""

    before: Segment
    options: LogOptions
    group: Sequence[Batch]
    run: SealedRun

    def fits(self, active: Segment, options: LogOptions, group: Sequence[Batch]) -> bool:
        """Whether sealing `group` would make it now: nothing was appended or altered since, and these come first."""
        if self.before is not active or self.options is not options:
            return False
        sealed = self.group[: len(self.run.entries)]
        return len(group) >= len(sealed) and all(map(is_, sealed, group))


def seal(active: Segment, options: LogOptions, group: Sequence[Batch], now: int) -> SealedRun:
    """As many batches as the active segment takes. The hot loop of the whole log."""
    run = SealedRun([], [], [], [], active)
    position, offset, previous = active.end_position, active.end_offset, active.last_block_hash
    max_time_ns, records = active.max_time_ns, active.records
    for batch in group:
        count, size = batch.header.count, batch.size + blocks.OVERHEAD
        full = position + size > options.segment_bytes or records + count > options.segment_records
        if full and records:
            break
        head = batches.stamp(batch.header, offset, options.leader_epoch, now)
        entry = blocks.encode_entry(previous, now, position, head, batch.body)
        previous = entry[blocks.HASH]
        run.entries.append(entry)
        run.appended.append(Appended(offset, offset + count, now, active.number, previous, options.durability))
        run.positions.append(position)
        run.times_before.append(max_time_ns)
        max_time_ns = max(max_time_ns, now if batch.header.base_time_ns == UNSTAMPED else batch.header.max_time_ns)
        position += size
        offset += count
        records += count
    return run._replace(
        after=active._replace(
            end_position=position,
            end_offset=offset,
            last_block_hash=previous,
            max_time_ns=max_time_ns,
            last_timestamp_ns=now,
            blocks=active.blocks + len(run.entries),
            records=records,
        )
    )
