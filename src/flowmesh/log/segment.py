"""One segment as readers see it: an immutable row of facts, and a source that opens its file and index when needed."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from flowmesh.base.limits import OPEN_FILES_PER_LOG_MAX
from flowmesh.format import index as index_format
from flowmesh.format.index import IndexHeader
from flowmesh.format.segment import SIZE, SegmentHeader
from flowmesh.log.index import NO_TIME, SparseIndex
from flowmesh.log.scan import Block, Position, scan
from flowmesh.ports.disk import Disk, File


class Source:
    """A segment's open file and loaded index. Readers share them; dropping the last reference closes the file."""

    def __init__(self, disk: Disk, path: str, recent: deque[Source], index: SparseIndex | None = None) -> None:
        self._disk = disk
        self._path = path
        self.recent = recent
        """What the sources of one log share: who was opened last, so that the oldest can be dropped."""
        self._file: File | None = None
        self._index = index
        self._pinned = index is not None

    def file(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self._path)
            self._remember()
        return file

    def index(self, segment: Segment) -> SparseIndex:
        index = self._index
        if index is None:
            index = self._load(segment)
            self._index = index
            self._remember()
        return index

    def replace_index(self, index: SparseIndex) -> None:
        """Puts an index made from the segment itself in the place of one that led astray."""
        self._index = index

    def unpin(self) -> None:
        """The segment was closed: its index may now be dropped and read back from its file."""
        self._pinned = False
        self._remember()

    def let_go(self) -> None:
        """The log is gone: the space of its files comes back when the last reader is done, and not only when the
        collector comes upon the cycle that the sources of one log are."""
        self._file = None
        self.recent.clear()

    def _remember(self) -> None:
        self.recent.append(self)
        while len(self.recent) > OPEN_FILES_PER_LOG_MAX:
            oldest = self.recent.popleft()
            if oldest is not self:
                oldest._file = None
                oldest._index = oldest._index if oldest._pinned else None

    def _load(self, segment: Segment) -> SparseIndex:
        try:
            file = self._disk.open(index_path(self._path))
            loaded = index_format.decode(file.read(0, file.size()))
        except FileNotFoundError:
            loaded = None
        if loaded is None or loaded.header.segment_hash != segment.header.hash:
            return segment.reindexed()
        return SparseIndex.of_file(loaded)


def index_path(segment_path: str) -> str:
    return segment_path.removesuffix(".log") + ".idx"


class Segment(NamedTuple):
    """What is durable of a segment. A new row replaces the old one; nothing in it is ever changed."""

    number: int
    header: SegmentHeader
    source: Source
    end_position: int
    end_offset: int
    last_block_hash: bytes
    max_time_ns: int
    last_timestamp_ns: int
    blocks: int
    records: int
    index_rows: int

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    def start(self) -> Position:
        return Position(SIZE, self.header.base_offset, self.header.hash)

    def index_header(self) -> IndexHeader:
        return IndexHeader(
            self.header.hash,
            self.end_position,
            self.end_offset,
            self.last_block_hash,
            self.max_time_ns,
            self.last_timestamp_ns,
            self.blocks,
            self.records,
        )

    def extended(self, block: Block) -> Segment:
        """The row after one more block."""
        return self._replace(
            end_position=block.end_position,
            end_offset=block.end_offset,
            last_block_hash=block.header.hash,
            max_time_ns=max(self.max_time_ns, block.batch_header.max_time_ns),
            last_timestamp_ns=block.header.timestamp_ns,
            blocks=self.blocks + 1,
            records=self.records + block.batch_header.count,
        )

    def reindexed(self) -> SparseIndex:
        """The index made anew by walking the segment; damaged ranges are walked around."""
        index, max_time_ns = SparseIndex(), NO_TIME
        for found in scan(self.source.file(), self.number, self.header, self.start(), self.end_position):
            if isinstance(found, Block):
                index.note(found.base_offset, found.position, max_time_ns)
                max_time_ns = max(max_time_ns, found.batch_header.max_time_ns)
        return index


def empty_segment(number: int, header: SegmentHeader, source: Source) -> Segment:
    return Segment(number, header, source, SIZE, header.base_offset, header.hash, NO_TIME, header.created_ns, 0, 0, 0)
