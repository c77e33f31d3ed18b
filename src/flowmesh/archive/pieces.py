"""What there is to archive of a partition, cut into pieces that become one file each. Asks indexes, and reads no data.

Every piece is a run of whole blocks: several segments, or a part of one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flowmesh.archive import names
from flowmesh.archive.manifest import ArchivedPartition
from flowmesh.base.errors import BadRequest, CorruptData
from flowmesh.base.limits import GIB, MIB
from flowmesh.format import segment as segment_format
from flowmesh.format.names import segment_name
from flowmesh.format.segment import SegmentHeader
from flowmesh.log.segment import Segment
from flowmesh.log.view import LogView

PIECE_BYTES_MIN = 1 * MIB
PIECE_BYTES_DEFAULT = 128 * MIB
PIECE_BYTES_MAX = 1 * GIB


class SegmentSpan(NamedTuple):
    """Blocks of one segment: those between two positions that hold offsets in `[base_offset, end_offset)`."""

    number: int
    header: bytes
    path: str
    position: int
    end_position: int
    base_offset: int
    end_offset: int

    @property
    def segment(self) -> SegmentHeader:
        return segment_format.decode(self.header)


class ArchivePiece(NamedTuple):
    """What becomes one file."""

    name: str
    partition: int
    spans: tuple[SegmentSpan, ...]

    @property
    def base_offset(self) -> int:
        return self.spans[0].base_offset

    @property
    def end_offset(self) -> int:
        return self.spans[-1].end_offset

    @property
    def size_bytes(self) -> int:
        return sum(span.end_position - span.position for span in self.spans)


def pieces(
    view: LogView,
    directory: str,
    partition: int,
    held: ArchivedPartition | None,
    *,
    piece_bytes: int = PIECE_BYTES_DEFAULT,
    include_open: bool = False,
) -> list[ArchivePiece]:
    """Closed segments that the archive does not hold yet; with `include_open` all that is durable."""
    if not PIECE_BYTES_MIN <= piece_bytes <= PIECE_BYTES_MAX:
        raise BadRequest(
            f"piece_bytes is {piece_bytes}; it goes from {PIECE_BYTES_MIN} to {PIECE_BYTES_MAX}.", field="piece_bytes"
        )
    begin = view.start_offset if held is None or not held.segments else held.end_offset
    segments = [*view.closed, *([view.active] if include_open else [])]
    wanted = [segment for segment in segments if segment.end_offset > begin]
    if held is not None:
        _require_joined(view, partition, held)
    if not wanted:
        return []
    _require_unbroken(view, wanted, begin)
    runs = _runs([_span(segment, directory, begin) for segment in wanted], wanted, piece_bytes)
    return [
        ArchivePiece(
            names.data_name(view.chain.hash, partition, run[0].base_offset, run[-1].end_offset), partition, run
        )
        for run in runs
    ]


def _require_joined(view: LogView, partition: int, held: ArchivedPartition) -> None:
    """The archive is of this very log, and nothing was lost between its end and the log's beginning."""
    if held.chain.hash != view.chain.hash:
        raise BadRequest(
            f"the archive holds partition {partition} of another stream: chain {held.chain_name!r}, not"
            f" {view.chain.name!r} as it is now.",
            field="location",
            hint="A stream that was deleted and made anew needs an archive of its own.",
        )
    if held.segments and view.start_offset > held.end_offset:
        raise CorruptData(
            f"offsets [{held.end_offset}, {view.start_offset}) of partition {partition} are lost: retention dropped"
            " them before they were archived.",
            field="retention",
            hint="Begin a new archive at another location. The archive's group keeps this from happening; see"
            " 'flowmesh archive run'.",
        )
    fault = joint_fault(held, view.segments)
    if fault is not None:
        raise CorruptData(f"partition {partition}: {fault}.", hint="'flowmesh archive verify' tells more.")


def joint_fault(held: ArchivedPartition, hot: Sequence[Segment]) -> str | None:
    """Why the first hot segments do not go on from where the archive ends, by their hashes; None when they do."""
    archived = {segment.number: segment for segment in held.segments}
    last = held.segments[-1] if held.segments else None
    for segment in hot:
        known = archived.get(segment.number)
        if known is not None and known.hash != segment.header.hash.hex():
            return f"segment {segment.number} of the log is not the one that was archived"
        follows = last is not None and segment.base_offset == last.end_offset and segment.number == last.number + 1
        if last is not None and follows:
            links = (segment.header.previous_segment_hash.hex(), segment.header.previous_block_hash.hex())
            if links != (last.hash, last.last_block_hash):
                return f"segment {segment.number} of the log does not hang on the end of the archive"
    return None


def _require_unbroken(view: LogView, wanted: Sequence[Segment], begin: int) -> None:
    expected = begin
    for segment in wanted:
        if max(segment.base_offset, begin) != expected:
            raise next(
                (damage.error() for damage in view.damage if damage.covers(expected)),
                CorruptData(f"offsets [{expected}, {segment.base_offset}) are missing from the log."),
            )
        expected = segment.end_offset


def _span(segment: Segment, directory: str, begin: int) -> SegmentSpan:
    first = max(segment.base_offset, begin)
    position = segment.start().position
    if first > segment.base_offset:
        noted = segment.source.index(segment).before_offset(first, _rows(segment))
        position = noted[1] if noted is not None else position
    return _part(segment, directory, position, segment.end_position, first, segment.end_offset)


def _part(segment: Segment, directory: str, position: int, end_position: int, base: int, end: int) -> SegmentSpan:
    header = segment.header
    data = segment_format.encode(
        header.chain_hash,
        header.previous_segment_hash,
        header.previous_block_hash,
        header.base_offset,
        header.created_ns,
    )
    path = f"{directory}/{segment_name(segment.number)}"
    return SegmentSpan(segment.number, data, path, position, end_position, base, end)


def _rows(segment: Segment) -> int:
    """A closed segment's index is whole; that of a growing one counts as far as the view goes."""
    rows = len(segment.source.index(segment))
    return min(rows, segment.index_rows) if segment.index_rows else rows


def _runs(spans: list[SegmentSpan], segments: Sequence[Segment], piece_bytes: int) -> Iterator[tuple[SegmentSpan, ...]]:
    """Small neighbours together, large ones cut."""
    gathered: list[SegmentSpan] = []
    size = 0
    for span, segment in zip(spans, segments, strict=True):
        span_bytes = span.end_position - span.position
        if gathered and size + span_bytes > piece_bytes:
            yield tuple(gathered)
            gathered, size = [], 0
        if span_bytes > piece_bytes:
            yield from ((part,) for part in _cut(span, segment, piece_bytes))
        else:
            gathered.append(span)
            size += span_bytes
    if gathered:
        yield tuple(gathered)


def _cut(span: SegmentSpan, segment: Segment, piece_bytes: int) -> Iterator[SegmentSpan]:
    """Parts of about one size, none much larger than asked for, at blocks that the index knows."""
    index, rows = segment.source.index(segment), _rows(segment)
    count = -(-(span.end_position - span.position) // piece_bytes)
    target = (span.end_position - span.position) / count
    first = bisect_right(index.offsets, span.base_offset, 0, rows)
    last = bisect_left(index.offsets, span.end_offset, first, rows)
    part = span
    for number in range(1, count):
        row = bisect_left(index.positions, span.position + int(number * target), first, last)
        if row == last:
            break
        if index.offsets[row] > part.base_offset:
            yield part._replace(end_position=index.positions[row], end_offset=index.offsets[row])
            part = part._replace(position=index.positions[row], base_offset=index.offsets[row])
    yield part
