"""Records of an archive as Parquet: the schema of its files, and the writer of one piece. Needs pyarrow."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flowmesh.archive.growing import WrittenPiece
from flowmesh.archive.manifest import ArchivedFile, ArchivedSegment, segment_of
from flowmesh.archive.pieces import ArchivePiece, SegmentSpan
from flowmesh.base.errors import BadRequest, CorruptData
from flowmesh.base.limits import MIB
from flowmesh.format.arrow import to_arrow
from flowmesh.format.batch import BatchKind
from flowmesh.host.disk import RealDisk
from flowmesh.log.findings import Damage
from flowmesh.log.scan import Block, Position, scan

ZSTD_LEVEL = 1
ROW_GROUP_BYTES = 64 * MIB
ROW_GROUP_RECORDS = 1_000_000
_MICROSECOND_NS = 1_000
HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(pa.field("element", HEADER))
SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("timestamp_ns", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
    ]
)
"""Spark knows no nanoseconds: `timestamp` is for it, and `timestamp_ns` is the whole truth."""


def write_piece(piece: ArchivePiece, temporary: Path) -> WrittenPiece:
    """Writes what `piece` names to a file, every block proven by its checksum, its hash and its link."""
    reader = _PieceReader(piece)
    with temporary.open("xb") as raw:
        target = _HashingFile(raw)
        with pq.ParquetWriter(
            pa.PythonFile(target, "w"),
            SCHEMA,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=["partition", "key", "headers.list.element.key"],
            column_encoding={
                "offset": "DELTA_BINARY_PACKED",
                "timestamp": "DELTA_BINARY_PACKED",
                "timestamp_ns": "DELTA_BINARY_PACKED",
            },
            write_page_checksum=True,
            write_statistics=["partition", "offset", "timestamp", "timestamp_ns"],
        ) as writer:
            for rows in reader.row_groups():
                writer.write_table(rows, row_group_size=len(rows) or 1)
        raw.flush()
        os.fsync(raw.fileno())
    return reader.written(str(temporary), target.size, target.digest.hexdigest())


class _HashingFile:
    """A file that is written from its beginning to its end, and hashed on the way."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self.digest = hashlib.sha256()
        self.size = 0

    closed = False

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self._raw.write(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._raw.flush()

    def close(self) -> None:
        """Its owner closes the file, once it is durable."""


class _PieceReader:
    """One walk over the blocks of a piece, and what there is to say of it afterwards."""

    def __init__(self, piece: ArchivePiece) -> None:
        self._piece = piece
        self._first_link = b""
        self._last_hash = b""
        self._segments: list[ArchivedSegment] = []
        self._records = 0
        self._times: list[tuple[int, int]] = []

    def row_groups(self) -> Iterator[pa.Table]:
        gathered: list[pa.RecordBatch] = []
        rows = size = 0
        for block in self._blocks():
            if block.batch_header.kind == BatchKind.CONTROL:
                continue
            gathered.append(to_arrow(block.batch))
            rows += block.batch_header.count
            size += block.batch_header.body_bytes
            if rows >= ROW_GROUP_RECORDS or size >= ROW_GROUP_BYTES:
                yield self._table(gathered)
                gathered, rows, size = [], 0, 0
        if gathered:
            yield self._table(gathered)

    def written(self, temporary: str, size_bytes: int, sha256: str) -> WrittenPiece:
        piece = self._piece
        file = ArchivedFile(
            piece.name,
            piece.base_offset,
            piece.end_offset,
            self._records,
            size_bytes,
            sha256,
            min((low for low, _ in self._times), default=0),
            max((high for _, high in self._times), default=0),
            self._first_link.hex(),
            self._last_hash.hex(),
        )
        return WrittenPiece(temporary, piece.partition, file, tuple(self._segments))

    def _blocks(self) -> Iterator[Block]:
        expected = self._piece.base_offset
        for span in self._piece.spans:
            for block in _span_blocks(span):
                if block.batch_header.kind == BatchKind.FOREIGN:
                    raise BadRequest(
                        f"offset {block.base_offset} holds a foreign batch, which has no columns to archive.",
                        field="stream",
                    )
                if block.base_offset != expected:
                    raise CorruptData(f"no block begins at offset {expected}, where the archive has to go on.")
                if not self._first_link:
                    self._first_link = block.header.previous_hash
                self._last_hash, expected = block.header.hash, block.end_offset
                yield block
            self._segments.append(segment_of(span.number, span.segment, span.end_offset, self._last_hash))
            if expected != span.end_offset:
                raise CorruptData(f"the blocks of segment {span.number} end at offset {expected}.")

    def _table(self, batches: list[pa.RecordBatch]) -> pa.Table:
        table = pa.Table.from_batches(batches)
        times = table.column("timestamp").cast(pa.int64())
        bounds = pc.min_max(times)
        self._times.append((bounds["min"].as_py(), bounds["max"].as_py()))
        self._records += len(table)
        partition = pa.repeat(pa.scalar(self._piece.partition, pa.int32()), len(table))
        columns = [
            partition,
            table.column("offset"),
            _microseconds(times),
            times,
            table.column("key"),
            table.column("value"),
            pa.chunked_array([_headers(batch.column("headers")) for batch in batches], HEADERS),
        ]
        return pa.Table.from_arrays(columns, schema=SCHEMA)


def _span_blocks(span: SegmentSpan) -> Iterator[Block]:
    header = span.segment
    linked = span.base_offset == header.base_offset
    start = Position(span.position, header.base_offset if linked else -1, header.hash if linked else b"")
    file = RealDisk().open(span.path)
    for found in scan(file, span.number, header, start, span.end_position, deep_from=0):
        if isinstance(found, Damage):
            raise found.within(span.end_offset).error()
        if found.end_offset > span.base_offset:
            yield found


def _microseconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Rounded down, also before 1970."""
    floor = pc.divide(times, _MICROSECOND_NS)
    early = pc.less(times, pc.multiply(floor, _MICROSECOND_NS))
    if pc.any(early).as_py():
        floor = pc.subtract(floor, pc.cast(early, pa.int64()))
    return pa.chunked_array([chunk.view(SCHEMA.field("timestamp").type) for chunk in floor.chunks])


def _headers(found: pa.MapArray) -> pa.ListArray:
    """The same buffers under the type that readers of Spark know: a list of names and values."""
    pairs = pa.StructArray.from_arrays([_text(found.keys), found.items], fields=list(HEADER.fields))
    return pa.Array.from_buffers(HEADERS, len(found), found.buffers()[:2], children=[pairs], offset=found.offset)


def _text(names: pa.Array) -> pa.Array:
    """Names are bytes in the log. What of one is no UTF-8 is written as `\\xNN`, so that nothing is lost."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="backslashreplace") for name in names.to_pylist()], pa.string())
