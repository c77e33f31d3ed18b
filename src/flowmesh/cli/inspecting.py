"""The work of `log inspect`: segments and blocks as rows and as dictionaries. Blocks are walked, never gathered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from flowmesh.base.times import to_text
from flowmesh.cli.reports import as_line, damage_text, of_chain, of_damage, of_note
from flowmesh.cli.tables import offsets_text
from flowmesh.format import names
from flowmesh.format.batch import NO_PRODUCER, BatchKind, Codec
from flowmesh.log.findings import Damage
from flowmesh.log.opening import Survey
from flowmesh.log.scan import Block, scan
from flowmesh.log.segment import Segment

_BLOCK_TITLES = ("position", "bytes", "offsets", "time", "kind", "codec", "body", "producer", "id")
_WIDTHS = (12, 10, 26, 30, 8, 5, 10, 20, 0)
"""Fixed, because the rows are printed as they are found."""


def segments_of(found: Survey, number: int | None) -> list[Segment]:
    segments = [*found.closed, found.active] if found.active is not None else [*found.closed]
    return [segment for segment in segments if number is None or segment.number == number]


def end_offset(found: Survey) -> int:
    segments = segments_of(found, None)
    return segments[-1].end_offset if segments else found.floor.start_offset


def bytes_past_the_end(found: Survey) -> int:
    return max(found.file_size - found.active.end_position, 0) if found.active is not None else 0


def segment_row(segment: Segment) -> tuple[object, ...]:
    return (
        segment.number,
        offsets_text(segment.base_offset, segment.end_offset),
        segment.blocks,
        segment.records,
        segment.end_position,
        to_text(segment.header.created_ns),
        segment.header.hash[:8].hex(),
    )


def as_dictionary(directory: Path, found: Survey, segments: Iterable[Segment]) -> dict[str, Any]:
    return {
        "directory": str(directory),
        "chain": of_chain(found.chain),
        "start_offset": found.floor.start_offset,
        "end_offset": end_offset(found),
        "first_segment": found.floor.first_segment,
        "bytes_past_durable_end": bytes_past_the_end(found),
        "segments": [_of_segment(segment) for segment in segments],
        "damage": [of_damage(damage) for damage in found.damage],
        "notes": [of_note(note) for note in found.notes],
    }


def _of_segment(segment: Segment) -> dict[str, Any]:
    return {
        "number": segment.number,
        "file": names.segment_name(segment.number),
        "base_offset": segment.base_offset,
        "end_offset": segment.end_offset,
        "blocks": segment.blocks,
        "records": segment.records,
        "bytes": segment.end_position,
        "created": to_text(segment.header.created_ns),
        "id": segment.header.hash[:8].hex(),
        "hash": segment.header.hash.hex(),
        "last_block_hash": segment.last_block_hash.hex(),
    }


def _walk(segment: Segment) -> Iterator[Block | Damage]:
    return scan(segment.source.file(), segment.number, segment.header, segment.start(), segment.end_position)


def block_lines(segments: Iterable[Segment]) -> Iterator[str]:
    for segment in segments:
        yield f"\nblocks of segment {segment.number}"
        yield _padded(_BLOCK_TITLES)
        for found in _walk(segment):
            yield f"damage: {damage_text(found)}" if isinstance(found, Damage) else _padded(_block_row(found))


def _padded(row: tuple[object, ...]) -> str:
    return "  ".join(f"{cell!s:{width}}" if width else str(cell) for cell, width in zip(row, _WIDTHS, strict=True))


def _block_row(block: Block) -> tuple[object, ...]:
    header = block.batch_header
    producer = f"{header.producer_id}/{header.producer_epoch}/{header.first_sequence}"
    return (
        block.position,
        len(block.entry),
        offsets_text(block.base_offset, block.end_offset),
        to_text(block.header.timestamp_ns),
        _kind(header.kind),
        Codec(header.codec).name.lower(),
        header.body_bytes,
        producer if header.producer_id != NO_PRODUCER else "-",
        block.id,
    )


def json_blocks(segments: Iterable[Segment]) -> Iterator[str]:
    for segment in segments:
        for found in _walk(segment):
            yield as_line({"damage": of_damage(found)} if isinstance(found, Damage) else _of_block(segment, found))


def _of_block(segment: Segment, block: Block) -> dict[str, Any]:
    header = block.batch_header
    known = header.producer_id != NO_PRODUCER
    return {
        "segment": segment.number,
        "id": block.id,
        "position": block.position,
        "bytes": len(block.entry),
        "base_offset": block.base_offset,
        "end_offset": block.end_offset,
        "time": to_text(block.header.timestamp_ns),
        "kind": _kind(header.kind),
        "codec": Codec(header.codec).name.lower(),
        "body_bytes": header.body_bytes,
        "stored_bytes": block.batch.size,
        "producer_id": header.producer_id if known else None,
        "producer_epoch": header.producer_epoch if known else None,
        "first_sequence": header.first_sequence if known else None,
        "leader_epoch": header.leader_epoch,
        "schema_version": header.schema_version,
    }


def _kind(kind: int) -> str:
    return BatchKind(kind).name.lower()
