"""What opening a log looks at, file by file, each judged by the table in `recovery`. Changes nothing on disk."""

from __future__ import annotations

from collections import deque

from flowmesh.base.errors import CorruptData, UnsupportedVersion
from flowmesh.format import chain as chain_format
from flowmesh.format import floor as floor_format
from flowmesh.format import index as index_format
from flowmesh.format import mark as mark_format
from flowmesh.format import names
from flowmesh.format import segment as segment_format
from flowmesh.format.chain import ChainIdentity
from flowmesh.format.floor import Floor
from flowmesh.format.index import IndexFile
from flowmesh.format.mark import DurableMark
from flowmesh.format.segment import NO_HASH, SegmentHeader
from flowmesh.log import directory as files
from flowmesh.log.findings import Action, Damage, Finding, Note, Where
from flowmesh.log.index import SparseIndex
from flowmesh.log.recovery import decide
from flowmesh.log.scan import Block, Position, scan
from flowmesh.log.segment import Segment, Source
from flowmesh.ports.disk import Disk

START = Floor(1, 0, NO_HASH.hex(), NO_HASH.hex())


class Surveyor:
    """One walk over one directory. Collects notes and damage; changes nothing on disk."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.disk = disk
        self.directory = directory
        self.notes: list[Note] = []
        self.damage: list[Damage] = []
        self.removals: list[str] = []
        self.rebuilt: list[Segment] = []
        self.recent: deque[Source] = deque()

    def judge(self, where: Where, finding: Finding, detail: str) -> Action:
        action = decide(where, finding)
        if finding is not Finding.SOUND:
            self.notes.append(Note(where, finding, action, detail))
        if action is Action.REFUSE:
            error = UnsupportedVersion if finding is Finding.UNKNOWN_VERSION else CorruptData
            raise error(
                f"{self.directory}: the {where.value} is {finding.value}: {detail}",
                field=where.name.lower(),
                hint="Nothing was changed. Use the newer FlowMesh that wrote it."
                if finding is Finding.UNKNOWN_VERSION
                else "Nothing was changed. Restore this file from a copy; 'flowmesh log verify' tells more.",
            )
        return action

    def chain(self, listing: files.Listing) -> ChainIdentity | None:
        # A new log beside an old floor or mark would be taken for what is left of the old one. They are looked for
        # before the chain file, which is made before them: another process may just be creating this log.
        left = [name for name in (names.FLOOR, names.MARK) if self.disk.exists(f"{self.directory}/{name}")]
        data = files.read_file(self.disk, self.directory, names.CHAIN)
        if data is None:
            has_data = bool(listing.segments or left)
            self.judge(Where.CHAIN_FILE, Finding.MISSING_WITH_DATA if has_data else Finding.MISSING, names.CHAIN)
            return None
        try:
            return chain_format.decode(data)
        except UnsupportedVersion as error:
            self.judge(Where.CHAIN_FILE, Finding.UNKNOWN_VERSION, error.message)
        except CorruptData as error:
            self.judge(Where.CHAIN_FILE, Finding.DAMAGED, error.message)
        return None

    def floor(self) -> Floor:
        data = files.read_file(self.disk, self.directory, names.FLOOR)
        if data is None:
            return START
        try:
            return floor_format.decode(data)
        except UnsupportedVersion as error:
            self.judge(Where.FLOOR_FILE, Finding.UNKNOWN_VERSION, error.message)
        except CorruptData as error:
            self.judge(Where.FLOOR_FILE, Finding.DAMAGED, error.message)
        return START

    def mark(self) -> DurableMark | None:
        data = files.read_file(self.disk, self.directory, names.MARK)
        mark = mark_format.decode(data) if data is not None else None
        if mark is None:
            self.judge(Where.MARK_FILE, Finding.MISSING if data is None else Finding.DAMAGED, "no bound is known")
        return mark

    def sweep(self, listing: files.Listing, floor: Floor) -> list[int]:
        """Notes what does not belong here; returns the numbers of the segments that do."""
        for name in listing.temporary:
            self.judge(Where.DIRECTORY, Finding.TEMPORARY, name)
            self.removals.append(name)
        for name in listing.stray:
            self.judge(Where.DIRECTORY, Finding.STRAY, name)
        for numbers, name_of in ((listing.indexes, names.index_name), (listing.segments, names.segment_name)):
            for number in numbers:
                if number < floor.first_segment:
                    self.judge(Where.DIRECTORY, Finding.BELOW_FLOOR, name_of(number))
                    self.removals.append(name_of(number))
        return [number for number in listing.segments if number >= floor.first_segment]

    def path(self, number: int) -> str:
        return f"{self.directory}/{names.segment_name(number)}"

    def header(self, number: int) -> tuple[SegmentHeader | None, Finding, int]:
        """The header if it is sound by itself, what is wrong with it otherwise, and the file's size."""
        file = self.disk.open(self.path(number))
        try:
            size = file.size()
            data = file.read(0, segment_format.SIZE)
        finally:
            file.close()
        if len(data) < segment_format.SIZE:
            return None, Finding.SHORT, size
        header = segment_format.decode(data)
        if header.magic == segment_format.MAGIC and header.version != segment_format.VERSION:
            sound = segment_format.is_sound(data) or header.size != segment_format.SIZE
            return None, Finding.UNKNOWN_VERSION if sound else Finding.DAMAGED, size
        if header.magic != segment_format.MAGIC or not segment_format.is_sound(data):
            return None, Finding.DAMAGED, size
        return header, Finding.SOUND, size

    def index_file(self, number: int, header: SegmentHeader, size: int) -> tuple[IndexFile | None, int]:
        """The stored index if it can be used, and how far it says the segment was durable when it was written."""
        data = files.read_file(self.disk, self.directory, names.index_name(number))
        index = None if data is None else index_format.decode(data)
        finding, covered = Finding.SOUND, 0
        if index is None:
            finding = Finding.MISSING if data is None else Finding.DAMAGED
        elif index.header.segment_hash != header.hash:
            finding = Finding.OTHER_SEGMENT
        else:
            covered = index.header.covered_position
            finding = Finding.AHEAD if covered > size else Finding.SOUND
        usable = self.judge(Where.INDEX_FILE, finding, names.index_name(number)) is Action.USE
        return (index if usable else None), covered

    def source(self, number: int, index: SparseIndex | None = None) -> Source:
        return Source(self.disk, self.path(number), self.recent, index)

    def walk(
        self, segment: Segment, index: SparseIndex, start: Position, end: int, durable: int
    ) -> tuple[Segment, list[Damage], Damage | None]:
        """The segment as it is from `start` on: what is sound, what is damaged, and the fault it ends with, if any."""
        damage: list[Damage] = []
        walked = scan(segment.source.file(), segment.number, segment.header, start, end, deep_from=durable)
        for found in walked:
            if isinstance(found, Block):
                index.note(found.base_offset, found.position, segment.max_time_ns)
                segment = segment.extended(found)
            elif found.end_offset < 0 or found.position >= durable:
                return segment, damage, found
            else:
                damage.append(found)
        return segment, damage, None
