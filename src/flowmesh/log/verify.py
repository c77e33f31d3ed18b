"""Proof that a log is what was written: every hash computed anew, every link followed, nothing trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

from flowmesh.format import names
from flowmesh.format.chain import ChainIdentity
from flowmesh.format.checkpoint import Checkpoint
from flowmesh.format.floor import Floor
from flowmesh.format.segment import SIZE
from flowmesh.log.findings import Damage, Finding, Note
from flowmesh.log.open_log import look
from flowmesh.log.opening import Survey
from flowmesh.log.scan import scan
from flowmesh.log.segment import Segment
from flowmesh.log.surveyor import Surveyor
from flowmesh.ports.disk import Disk

Progress = Callable[[int], None]
"""Told how many more bytes have been verified."""
Run = Callable[[Callable[[Segment], "SegmentReport"], Iterable[Segment]], Iterable["SegmentReport"]]
"""`map`, or something like it that works on several segments at once."""

_TOLD_EVERY_BYTES = 4 * 1024 * 1024


def _untold(_size: int) -> None:
    """For callers that want no progress."""


class SegmentReport(NamedTuple):
    segment: Segment
    blocks: int
    records: int
    end_offset: int
    last_block_hash: bytes
    hash_at_wanted: bytes | None
    """The hash of the block that ends at the wanted offset, if one does."""
    damage: tuple[Damage, ...]


class VerifyReport(NamedTuple):
    chain: ChainIdentity
    start_offset: int
    end_offset: int
    segments: int
    blocks: int
    records: int
    size_bytes: int
    unverified_bytes: int
    """What lies past the durable end: never acknowledged, and cut or taken over when the log is next opened."""
    damage: tuple[Damage, ...]
    notes: tuple[Note, ...]
    checkpoint_fault: str | None
    """Why the log is not the one that the checkpoint was taken of; None when it is, or none was given."""

    @property
    def sound(self) -> bool:
        return not self.damage and self.checkpoint_fault is None


def verify_log(
    disk: Disk,
    directory: str,
    *,
    checkpoint: Checkpoint | None = None,
    run: Run = map,
    progress: Progress = _untold,
) -> VerifyReport:
    """Walks the whole log. Rot, edits, reordering and missing parts come back as damage, never as an exception."""
    found = look(disk, directory)
    segments = (*found.closed, found.active) if found.active is not None else found.closed
    wanted = checkpoint.end_offset if checkpoint is not None else None

    def one(segment: Segment) -> SegmentReport:
        return verify_segment(segment, wanted, progress)

    reports = list(run(one, segments))
    found, reports = _still_there(found, reports, Surveyor(disk, directory).floor())
    damage = _merged(found, reports) + _broken_links(reports) + _wrong_mark(found, reports)
    sizes = [report.segment.end_position for report in reports]
    fault = _checkpoint_fault(found, reports, checkpoint) if checkpoint is not None else None
    return VerifyReport(
        found.chain,
        found.floor.start_offset,
        reports[-1].end_offset if reports else found.floor.start_offset,
        len(reports),
        sum(report.blocks for report in reports),
        sum(report.records for report in reports),
        sum(sizes),
        _unverified_bytes(found, damage),
        tuple(damage),
        found.notes,
        fault,
    )


def verify_segment(segment: Segment, wanted_offset: int | None = None, progress: Progress = _untold) -> SegmentReport:
    """One segment by itself: its first block hangs on its header, and each block on the one before."""
    damage: list[Damage] = []
    blocks = records = 0
    end_offset, last_hash = segment.base_offset, segment.header.hash
    hash_at_wanted = None
    told = SIZE
    end = segment.end_position
    try:
        file = segment.source.file()
    except FileNotFoundError:
        missing = Damage(segment.number, 0, end, segment.base_offset, segment.end_offset, Finding.MISSING)
        return SegmentReport(segment, 0, 0, segment.base_offset, last_hash, None, (missing,))
    for found in scan(file, segment.number, segment.header, segment.start(), end, deep_from=SIZE):
        if isinstance(found, Damage):
            damage.append(found.within(segment.end_offset))
            continue
        end_offset, last_hash = found.end_offset, found.header.hash
        if end_offset == wanted_offset:
            hash_at_wanted = last_hash
        blocks += 1
        records += found.batch_header.count
        if found.end_position - told >= _TOLD_EVERY_BYTES:
            progress(found.end_position - told)
            told = found.end_position
    progress(end - told)
    return SegmentReport(segment, blocks, records, end_offset, last_hash, hash_at_wanted, tuple(damage))


def _still_there(found: Survey, reports: list[SegmentReport], floor: Floor) -> tuple[Survey, list[SegmentReport]]:
    """Without what its owner trimmed while this was at work: a segment below the floor is not missing."""
    if floor.first_segment <= found.floor.first_segment:
        return found, reports
    damage = tuple(item for item in found.damage if item.segment >= floor.first_segment)
    kept = [report for report in reports if report.segment.number >= floor.first_segment]
    return found._replace(floor=floor, damage=damage), kept


def _unverified_bytes(found: Survey, damage: list[Damage]) -> int:
    """A lost end was acknowledged: what is left of its bytes is damage, and not the rest of an interrupted write."""
    if found.active is None:
        return 0
    ends = [item.end_position for item in damage if item.segment == found.active.number]
    return max(found.file_size - max([found.active.end_position, *ends]), 0)


def _merged(found: Survey, reports: list[SegmentReport]) -> list[Damage]:
    """What the survey could not use (whole segments, a lost end), and what was found inside that which it could."""
    walked = {report.segment.number for report in reports}
    inside = [damage for report in reports for damage in report.damage]
    known = {(damage.segment, damage.position) for damage in inside}
    outside = [
        damage
        for damage in found.damage
        if damage.segment not in walked
        or ((damage.segment, damage.position) not in known and (damage.end_offset < 0 or damage is found.read_only))
    ]
    return sorted(outside + inside)


def _broken_links(reports: list[SegmentReport]) -> list[Damage]:
    """Where a segment does not end with what the next one says came before it."""
    broken = []
    for before, after in pairwise(reports):
        header = after.segment.header
        if before.damage or after.segment.number != before.segment.number + 1:
            continue
        if (before.end_offset, before.last_block_hash) != (header.base_offset, header.previous_block_hash):
            short = before.end_offset < header.base_offset
            finding = Finding.SHORT if short else Finding.WRONG_PREVIOUS_BLOCK
            first = before.end_offset if short else before.segment.base_offset
            end = before.segment.end_position
            broken.append(
                Damage(before.segment.number, end if short else SIZE, end, first, header.base_offset, finding)
            )
    return broken


def _wrong_mark(found: Survey, reports: list[SegmentReport]) -> list[Damage]:
    """The mark remembers the hash of the last durable block: it catches an edit of that block, which no link covers."""
    if found.mark is None or found.active is None or not reports or reports[-1].damage:
        return []
    last, mark = reports[-1], found.mark
    if (mark.segment, mark.position) != (last.segment.number, last.segment.end_position):
        return []
    if mark.block_hash == last.last_block_hash:
        return []
    return [Damage(mark.segment, SIZE, mark.position, last.segment.base_offset, mark.end_offset, Finding.BAD_HASH)]


def _checkpoint_fault(found: Survey, reports: list[SegmentReport], checkpoint: Checkpoint) -> str | None:
    if checkpoint.chain_hash != found.chain.hash.hex():
        return "the checkpoint is of another chain: this log was made anew, or is another log."
    hashes = {report.hash_at_wanted for report in reports}
    for report in reports:
        header = report.segment.header
        if header.base_offset == checkpoint.end_offset:
            hashes |= {header.hash, header.previous_block_hash}
    if bytes.fromhex(checkpoint.block_hash) in hashes:
        return None
    if checkpoint.end_offset < found.floor.start_offset:
        return f"the checkpoint's offset {checkpoint.end_offset} was trimmed away; take a newer checkpoint."
    end_offset = reports[-1].end_offset if reports else found.floor.start_offset
    if checkpoint.end_offset > end_offset:
        return f"the log ends at offset {end_offset}; at the checkpoint it had {checkpoint.end_offset}."
    return (
        f"the block that ends at offset {checkpoint.end_offset} is not the one that was signed: history was rewritten."
    )


def file_names(report: VerifyReport) -> list[str]:
    """The segment files that have damage, for people who look for them."""
    return sorted({names.segment_name(damage.segment) for damage in report.damage})
