"""The plan of a read: which offsets of which partitions, cut into pieces, packed into tasks. Plain values, no records.

A piece is anything that can be read as record batches: `HotPiece` lies in the log. What the log has lost may be given
by a `Filler`, in pieces of its own kind; the cold tier is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, Self

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from flowmesh.base.errors import CorruptData, OffsetOutOfRange
from flowmesh.base.limits import INDEX_INTERVAL_BYTES, MIB, SPLIT_BYTES_MAX, SPLIT_BYTES_MIN
from flowmesh.spark.errors import data_lost
from flowmesh.spark.fetching import stored_blocks
from flowmesh.spark.location import Location, Range, StreamAsking, StreamFacts
from flowmesh.spark.reading import Stored, record_batches
from flowmesh.spark.task_cuts import CutPiece, Cuts, cut_again

PIECE_BYTES_MIN, PIECE_BYTES_MAX = 16 * MIB, 256 * MIB
"""How large the pieces of a batch are made, where no option says it."""
PACK_BYTES = 4 * MIB
"""Small pieces share a task up to this size: a task costs more than reading a megabyte."""


class ReadSettings(NamedTuple):
    """What every piece needs to know to be read. It travels to executors."""

    location: Location
    names: tuple[str, ...]
    """Of `reading.RECORD_COLUMNS`."""
    verify: bool
    skip_lost: bool
    filler: Filler | None = None
    """For what the log drops between the plan and the reading."""


class Piece(CutPiece, Protocol):
    """A part of one partition that one task reads in one go."""

    @property
    def size_bytes(self) -> int: ...

    def record_batches(self, settings: ReadSettings) -> Iterator[pa.RecordBatch]:
        """Columns `settings.names` of the records in `[start, end)`, in order."""
        ...


class HotPiece(NamedTuple):
    """Lies in the log itself."""

    partition: int
    start: int
    end: int
    size_bytes: int

    def within(self, start: int, end: int) -> Self:
        return self._replace(start=start, end=end)

    def record_batches(self, settings: ReadSettings) -> Iterator[pa.RecordBatch]:
        position = self.start
        while position < self.end:
            wanted = Range(self.partition, position, self.end)
            walk = _UpToTheLoss(stored_blocks(settings.location, wanted, verify=settings.verify), position)
            yield from record_batches(walk, position, self.end, settings.names)
            if walk.lost is None:
                return
            # Trimmed between the plan and now. Trims go forward, so a later beginning was not given out yet.
            position, begin = walk.position, walk.lost.start_offset
            lost = Range(self.partition, position, min(begin, self.end) if begin > position else self.end)
            for piece in settings.filler.fill(lost) if settings.filler is not None else ():
                if piece.start > position:
                    break
                yield from piece.record_batches(settings)
                position = piece.end
            if position < lost.end:
                if not settings.skip_lost or begin <= position:
                    why = f"the log now holds [{begin}, {walk.lost.end_offset})."
                    raise data_lost(str(settings.location.stream), self.partition, position, lost.end, why) from None
                position = lost.end


class _UpToTheLoss:
    """Blocks up to where the log has lost them: what was read before that is given out first."""

    def __init__(self, stored: Iterator[Stored], position: int) -> None:
        self._stored = stored
        self.position = position
        """The next offset after what was given out."""
        self.lost: OffsetOutOfRange | None = None

    def __iter__(self) -> Iterator[Stored]:
        try:
            for stored in self._stored:
                yield stored
                self.position = stored.batch.header.end_offset
        except OffsetOutOfRange as error:
            self.lost = error


class PieceTask(InputPartition):
    """What one task reads: one large piece, or several small ones, in order."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(tuple(pieces))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        found: tuple[Piece, ...] = self.value
        return found


class Filler(Protocol):
    """Where to look for what the log has no more, before it is called lost."""

    def fill(self, lost: Range) -> Sequence[Piece]:
        """Pieces inside `lost`, in order and without overlap; what they leave out stays lost."""
        ...


class ReadPlan(NamedTuple):
    pieces: tuple[Piece, ...]
    skipped: tuple[Range, ...] = ()
    """Lost ranges that were passed over because the query said so."""
    cuts: Cuts | None = None
    """Where tasks begin, when that was decided before."""

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.pieces)

    @property
    def records(self) -> int:
        """At the most: offsets that no record has are counted too."""
        return sum(piece.end - piece.start for piece in self.pieces)

    def tasks(self) -> list[PieceTask]:
        """Each large piece alone, small ones together. The same plan is always packed in the same way."""
        if self.cuts is not None:
            return [PieceTask(pieces) for pieces in cut_again(self.pieces, self.cuts)]
        found: list[PieceTask] = []
        packed: list[Piece] = []
        for piece in self.pieces:
            if packed and sum(each.size_bytes for each in packed) + piece.size_bytes > PACK_BYTES:
                found.append(PieceTask(packed))
                packed = []
            packed.append(piece)
        return [*found, PieceTask(packed)] if packed else found


def even_split_bytes(facts: StreamFacts, wanted: Sequence[Range], cores: int) -> int:
    """Pieces of one size, few because a task costs as much as reading megabytes, yet enough for all cores."""
    logs = {each.partition: each for each in facts.partitions}
    sizes = [
        log.size_bytes * (each.end - each.start) // max(log.end - log.start, 1)
        for each in wanted
        if (log := logs.get(each.partition)) is not None
    ]
    bound = min(max(sum(sizes) // cores, PIECE_BYTES_MIN), PIECE_BYTES_MAX)
    largest = max(sizes, default=0)
    # A little more than an even share, because pieces end where the index has a mark.
    share = largest // max(-(-largest // bound), 1)
    return min(max(share + share // 32 + 2 * INDEX_INTERVAL_BYTES, SPLIT_BYTES_MIN), SPLIT_BYTES_MAX)


def plan(
    asking: StreamAsking,
    stream: str,
    facts: StreamFacts,
    wanted: Sequence[Range],
    split_bytes: int,
    *,
    skip_lost: bool = False,
    filler: Filler | None = None,
) -> ReadPlan:
    """Pieces for all that is wanted, in order of partition and offset."""
    logs = {each.partition: each for each in facts.partitions}
    hot: list[Range] = []
    cold: dict[int, list[Piece]] = {}
    skipped: list[Range] = []
    for partition, start, end in wanted:
        log = logs.get(partition)
        if log is None:
            raise CorruptData(f"stream {stream} has no partition {partition} any more.")
        if start < min(log.start, end):
            lost = Range(partition, start, min(log.start, end))
            cold[partition] = list(filler.fill(lost)) if filler is not None else []
            gaps = _gaps(lost, cold[partition])
            if gaps and not skip_lost:
                why = f"the log begins at {log.start}; retention took what lay before."
                raise data_lost(stream, partition, gaps[0].start, gaps[-1].end, why)
            skipped += gaps
        if end > log.end:
            raise data_lost(stream, partition, max(start, log.end), end, f"the log ends at {log.end}.")
        if max(start, log.start) < end:
            hot.append(Range(partition, max(start, log.start), end))
    cut: dict[int, list[HotPiece]] = {}
    for piece in asking.split(hot, split_bytes) if hot else ():
        cut.setdefault(piece.partition, []).append(HotPiece(*piece))
    pieces = [piece for each in wanted for piece in (*cold.get(each.partition, ()), *cut.get(each.partition, ()))]
    return ReadPlan(tuple(pieces), tuple(skipped))


def _gaps(lost: Range, found: Sequence[Piece]) -> list[Range]:
    gaps, position = [], lost.start
    for piece in found:
        if piece.start > position:
            gaps.append(Range(lost.partition, position, piece.start))
        position = max(position, piece.end)
    if position < lost.end:
        gaps.append(Range(lost.partition, position, lost.end))
    return gaps


def clipped(bounds: Mapping[int, tuple[int, int]]) -> list[Range]:
    """Ranges of all partitions that have something, in order."""
    return [Range(partition, start, end) for partition, (start, end) in sorted(bounds.items()) if start < end]
