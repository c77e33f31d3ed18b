"""How a manifest grows: what was written joined to what it holds. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from flowmesh.archive.manifest import (
    NO_PREVIOUS,
    ArchivedFile,
    ArchivedPartition,
    ArchivedSegment,
    Manifest,
    require_whole,
)
from flowmesh.base.errors import FlowMeshError
from flowmesh.format.chain import ChainIdentity


class WrittenPiece(NamedTuple):
    """A file that is whole and durable under a temporary name, and what the manifest will say of it."""

    temporary: str
    partition: int
    file: ArchivedFile
    segments: tuple[ArchivedSegment, ...]


class FailedPiece(NamedTuple):
    """Why a piece was not written: an error as it travels from a task, which is no use to try again."""

    kind: type[FlowMeshError]
    message: str
    field: str | None
    hint: str | None

    @classmethod
    def of(cls, error: FlowMeshError) -> FailedPiece:
        return cls(type(error), error.message, error.field, error.hint)

    def error(self) -> FlowMeshError:
        return self.kind(self.message, field=self.field, hint=self.hint)


class Anchor(NamedTuple):
    """The chain of a partition, and what the first segment of it that there is hangs on."""

    chain: ChainIdentity
    previous_segment_hash: bytes
    previous_block_hash: bytes


def grown(
    before: Manifest | None,
    stream: str,
    written: Iterable[WrittenPiece],
    anchors: Mapping[int, Anchor],
    now_ns: int,
) -> Manifest:
    """The manifest after `before`; whatever does not join what is there, or what else was written, is refused."""
    known = {partition.partition: partition for partition in before.partitions} if before is not None else {}
    ordered = sorted(written, key=lambda piece: (piece.partition, piece.file.base_offset))
    for number, pieces in groupby(ordered, key=lambda piece: piece.partition):
        known[number] = _joined(known.get(number) or _begun(number, anchors[number]), list(pieces))
    return require_whole(
        Manifest(
            before.number + 1 if before is not None else 1,
            before.hash if before is not None else NO_PREVIOUS,
            now_ns,
            stream,
            tuple(known[number] for number in sorted(known)),
        )
    )


def _begun(number: int, anchor: Anchor) -> ArchivedPartition:
    chain = anchor.chain
    return ArchivedPartition(
        number,
        chain.local_id.hex(),
        chain.name,
        chain.created_ns,
        anchor.previous_segment_hash.hex(),
        anchor.previous_block_hash.hex(),
    )


def _joined(partition: ArchivedPartition, pieces: Sequence[WrittenPiece]) -> ArchivedPartition:
    segments = list(partition.segments)
    for piece in pieces:
        for segment in piece.segments:
            if segments and segments[-1].number == segment.number:
                segments.pop()  # the same one, of which there is more now
            segments.append(segment)
    files = (*partition.files, *(piece.file for piece in pieces))
    return msgspec.structs.replace(partition, segments=tuple(segments), files=files)
