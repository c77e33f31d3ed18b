"""Opening a log: what the surveyor finds becomes segments that can be served, and a list of what must be put right.

`survey` only reads, so a second process may look at a log that is being written. `settle` then makes the disk agree:
it cuts, removes, rewrites and syncs, and is called by the one owner alone.
"""

from __future__ import annotations

from typing import NamedTuple

from flowmesh.base.errors import CorruptData
from flowmesh.base.limits import MIB
from flowmesh.format import floor as floor_format
from flowmesh.format import index as index_format
from flowmesh.format import mark as mark_format
from flowmesh.format import names
from flowmesh.format.chain import ChainIdentity
from flowmesh.format.floor import Floor
from flowmesh.format.index import IndexFile
from flowmesh.format.mark import DurableMark
from flowmesh.format.segment import SIZE, SegmentHeader
from flowmesh.log import directory as files
from flowmesh.log.findings import Action, Damage, Finding, Note, Where
from flowmesh.log.index import SparseIndex
from flowmesh.log.scan import Position
from flowmesh.log.segment import Segment, empty_segment
from flowmesh.log.surveyor import Surveyor
from flowmesh.ports.disk import Disk, File

_REWRITE_BYTES = 4 * MIB


class Survey(NamedTuple):
    """All that opening found. `active` is None when the log has no segment that could take a block."""

    chain: ChainIdentity
    floor: Floor
    closed: tuple[Segment, ...]
    active: Segment | None
    durable_position: int
    """Up to here the active segment is known to be on the medium."""
    file_size: int
    mark: DurableMark | None
    clean: bool
    damage: tuple[Damage, ...]
    read_only: Damage | None
    """Why nothing may be appended, where acknowledged data is missing from the end."""
    notes: tuple[Note, ...]
    removals: tuple[str, ...]
    rebuilt: tuple[Segment, ...]
    """Closed segments whose index file has to be written anew."""


class _Found(NamedTuple):
    header: SegmentHeader | None
    finding: Finding
    size: int


def survey(disk: Disk, directory: str, *, owner: bool) -> Survey | None:
    """None for a directory without a log. The owner sees the segment files to their end; others up to the mark."""
    surveyor = Surveyor(disk, directory)
    mark = surveyor.mark()  # before the names: a writer may roll in between, and the mark must never be the newer one
    listing = files.listing(disk, directory)
    chain = surveyor.chain(listing)
    if chain is None:
        return None
    floor = surveyor.floor()
    numbers = surveyor.sweep(listing, floor)
    found = {number: _Found(*surveyor.header(number)) for number in numbers}
    known = max(mark.segment if mark is not None else 0, max(listing.indexes, default=0))
    _drop_torn_creation(surveyor, found, floor, known, owner=owner)
    last = max(found, default=floor.first_segment - 1)
    walk = _Walk(surveyor, chain, floor, found)
    closed = [segment for number in range(floor.first_segment, last) if (segment := walk.closed_segment(number))]
    if not owner and mark is not None and mark.segment < last:
        newer = surveyor.mark()  # a writer rolled between the mark and the names, and may have written on since
        if newer is not None and newer.segment <= last:
            mark = newer  # else it rolled once more, and all that was found in the last segment is durable
    active, durable, read_only = walk.last_segment(last, mark, owner=owner) if found else (None, 0, None)
    read_only = _lost_end(surveyor, floor, mark, known, last, walk.expected_offset) or read_only
    size = found[last].size if found else 0
    clean = mark is not None and active is not None and mark.clean and (mark.segment, mark.position) == (last, size)
    damage = surveyor.damage + ([read_only] if read_only else [])
    return Survey(
        chain,
        floor,
        tuple(closed),
        active,
        durable,
        size,
        mark,
        clean,
        tuple(damage),
        read_only,
        tuple(surveyor.notes),
        tuple(surveyor.removals),
        tuple(surveyor.rebuilt),
    )


def _lost_end(
    surveyor: Surveyor, floor: Floor, mark: DurableMark | None, known: int, last: int, end_offset: int
) -> Damage | None:
    """The newest segments are gone, though a mark, an index or a floor says that they were there."""
    if mark is not None and mark.segment > last:
        lost = Damage(mark.segment, 0, mark.position, end_offset, mark.end_offset, Finding.MISSING)
    elif known > last:
        lost = Damage(known, 0, 0, end_offset, -1, Finding.MISSING)
    elif floor.first_segment > max(last, 1):
        lost = Damage(floor.first_segment, 0, 0, floor.start_offset, -1, Finding.MISSING)
    else:
        return None
    surveyor.judge(Where.LAST_SEGMENT, Finding.MISSING, names.segment_name(lost.segment))
    return lost


def _drop_torn_creation(surveyor: Surveyor, found: dict[int, _Found], floor: Floor, known: int, *, owner: bool) -> None:
    """A crash between creating a segment file and syncing its header and name leaves one that never held a block.

    Its header may look whole and still be in the cache alone, as may its name, and after a failed fsync no later one
    would change that. So the owner makes it anew; who only looks may meet one that is being made, and leaves it.
    `known` is the last segment that a mark or an index speaks of: both are written after its header was synced.
    """
    last = max(found, default=0)
    if not found or found[last].size > SIZE:
        return
    mark_is_damaged = any(note.where is Where.MARK_FILE and note.finding is Finding.DAMAGED for note in surveyor.notes)
    if found[last].header is not None and (mark_is_damaged or not owner):
        return  # the mark as it is on the medium may know this segment
    if found[last].finding is Finding.UNKNOWN_VERSION:
        return
    held_blocks = known >= last or (last == floor.first_segment and last > 1)
    if not held_blocks:
        surveyor.judge(Where.LAST_SEGMENT, Finding.TORN_CREATION, names.segment_name(last))
        surveyor.removals.append(names.segment_name(last))
        del found[last]


class _Walk:
    """From segment to segment, each checked against the one before it."""

    def __init__(self, surveyor: Surveyor, chain: ChainIdentity, floor: Floor, found: dict[int, _Found]) -> None:
        self.surveyor = surveyor
        self.chain = chain
        self.floor = floor
        self.found = found
        self.expected_offset = floor.start_offset

    def closed_segment(self, number: int) -> Segment | None:
        header = self._header(number, Where.CLOSED_SEGMENT)
        if header is None:
            return None
        size, after = self.found[number].size, self._next_header(number)
        empty = empty_segment(number, header, self.surveyor.source(number))
        stored = self._stored_index(number, header, size, after)
        segment = restored(empty, stored) if stored else self._rebuild(empty, size, after)
        self.expected_offset = segment.end_offset
        return segment

    def last_segment(
        self, number: int, mark: DurableMark | None, *, owner: bool
    ) -> tuple[Segment | None, int, Damage | None]:
        """The active segment, its durable position, and what keeps it from taking appends, if anything."""
        header = self._header(number, Where.LAST_SEGMENT)
        if header is None:
            return None, 0, self.surveyor.damage.pop()
        size = self.found[number].size
        stored, covered = self.surveyor.index_file(number, header, size)
        known = mark if mark is not None and mark.segment == number else None
        durable = max(SIZE, known.position if known else 0, covered)
        index = SparseIndex.of_file(stored) if stored else SparseIndex()
        empty = empty_segment(number, header, self.surveyor.source(number, index))
        segment = restored(empty, stored) if stored else empty
        begin = Position(segment.end_position, segment.end_offset, segment.last_block_hash)
        end = max(size, durable) if owner or known is None else durable
        segment, damage, fault = self.surveyor.walk(segment, index, begin, end, durable)
        self.expected_offset = segment.end_offset
        for item in damage:
            self._judge_entry(Where.DURABLE_ENTRY, item)
        segment = segment._replace(index_rows=len(index))
        if fault is None:
            return segment, durable, None
        action = self._judge_entry(Where.TAIL_ENTRY if fault.position >= durable else Where.DURABLE_END, fault)
        lost = None if action is Action.CUT else fault._replace(end_offset=known.end_offset if known else -1)
        return segment, durable, lost

    def _judge_entry(self, where: Where, damage: Damage) -> Action:
        action = self.surveyor.judge(where, damage.finding, damage.describe())
        if action is Action.QUARANTINE:
            self.surveyor.damage.append(damage)
        return action

    def _header(self, number: int, where: Where) -> SegmentHeader | None:
        """The header if it is sound and linked; otherwise its whole range becomes damage."""
        header, finding, size = self.found.get(number, _Found(None, Finding.MISSING, 0))
        if header is not None:
            finding = self._link(number, header)
        if finding is Finding.SOUND:
            return header
        self.surveyor.judge(where, finding, names.segment_name(number))
        self.found[number] = _Found(None, finding, size)  # the next one must not be measured by it
        after = self._next_header(number)
        end_offset = after.base_offset if after else -1
        self.surveyor.damage.append(Damage(number, 0, size, self.expected_offset, end_offset, finding))
        self.expected_offset = max(end_offset, self.expected_offset)
        return None

    def _link(self, number: int, header: SegmentHeader) -> Finding:
        if header.chain_hash != self.chain.hash:
            return Finding.WRONG_CHAIN
        if number == self.floor.first_segment:
            expected = (self.floor.previous_segment_hash, self.floor.previous_block_hash, self.floor.start_offset)
            if expected != (header.previous_segment_hash.hex(), header.previous_block_hash.hex(), header.base_offset):
                self.surveyor.judge(Where.FLOOR_FILE, Finding.DISAGREES, names.segment_name(number))
            return Finding.SOUND
        before = self.found.get(number - 1)
        if before is None or before.header is None:
            return Finding.SOUND  # nothing is left to compare with; the gap is already named
        if header.previous_segment_hash != before.header.hash:
            return Finding.WRONG_PREVIOUS_SEGMENT
        if header.base_offset < before.header.base_offset:
            return Finding.WRONG_BASE_OFFSET
        return Finding.SOUND

    def _next_header(self, number: int) -> SegmentHeader | None:
        """The next sound header, which says where this segment must end."""
        later = (self.found[later].header for later in sorted(self.found) if later > number)
        return next((header for header in later if header is not None), None)

    def _stored_index(
        self, number: int, header: SegmentHeader, size: int, after: SegmentHeader | None
    ) -> IndexFile | None:
        stored, _ = self.surveyor.index_file(number, header, size)
        if stored is None:
            return None
        finding = Finding.SOUND
        if stored.header.covered_position < size:
            finding = Finding.BEHIND
        elif after is not None and after.previous_segment_hash == header.hash:
            ends = (stored.header.end_offset, stored.header.last_block_hash)
            if ends != (after.base_offset, after.previous_block_hash):
                finding = Finding.WRONG_PREVIOUS_BLOCK
        judged = self.surveyor.judge(Where.INDEX_FILE, finding, names.index_name(number))
        return stored if judged is Action.USE else None

    def _rebuild(self, empty: Segment, size: int, after: SegmentHeader | None) -> Segment:
        """A closed segment walked from end to end; what it lacks there is named by the one after it."""
        index = SparseIndex()
        segment, damage, fault = self.surveyor.walk(empty, index, empty.start(), size, size)
        linked = after is not None and after.previous_segment_hash == empty.header.hash
        end_offset = after.base_offset if after is not None and linked else -1
        if fault is not None:
            # Not linked means that what lies between is lost as well, yet not what begins after it.
            damage.append(fault._replace(end_offset=after.base_offset if after is not None else -1))
        elif after is not None and linked and segment.end_offset < after.base_offset:
            damage.append(Damage(empty.number, size, size, segment.end_offset, end_offset, Finding.SHORT))
        elif after is not None and linked and segment.last_block_hash != after.previous_block_hash:
            damage.append(Damage(empty.number, SIZE, size, empty.base_offset, end_offset, Finding.WRONG_PREVIOUS_HASH))
        for item in damage:
            self._judge_entry(Where.CLOSED_ENTRY, item)
        segment = segment._replace(
            end_position=size, end_offset=max(end_offset, segment.end_offset), index_rows=len(index)
        )
        segment.source.replace_index(index)
        if not damage:
            self.surveyor.rebuilt.append(segment)
        return segment


def restored(empty: Segment, index: IndexFile) -> Segment:
    """A segment as far as its index file covers it."""
    header = index.header
    return empty._replace(
        end_position=header.covered_position,
        end_offset=header.end_offset,
        last_block_hash=header.last_block_hash,
        max_time_ns=header.max_time_ns,
        last_timestamp_ns=header.last_timestamp_ns,
        blocks=header.blocks,
        records=header.records,
        index_rows=len(index.times),
    )


def settle(disk: Disk, directory: str, found: Survey) -> File | None:
    """Makes the disk agree with the survey, and returns the active segment's file, open for writing and all synced.

    What lies past the known durable end is written again before it is synced: after a failed fsync the page cache still
    shows it and a second fsync would say yes, but only pages that were dirtied anew really go to the medium.
    """
    if any(note.finding is Finding.BELOW_FLOOR for note in found.notes):
        # The trim was cut short. Its floor may be in the cache alone, and a removal must not reach the medium first.
        files.write_file(disk, directory, names.FLOOR, floor_format.encode(found.floor))
    for name in found.removals:
        if disk.exists(f"{directory}/{name}"):
            disk.remove(f"{directory}/{name}")
    if found.removals:
        disk.sync_directory(directory)
    for segment in found.rebuilt:
        write_index(disk, directory, segment, segment.source.index(segment))
    if found.active is None or found.read_only is not None:
        return None
    file = disk.open(f"{directory}/{names.segment_name(found.active.number)}", write=True)
    end = found.active.end_position
    if found.file_size > end or not found.clean:
        file.truncate(end)  # also to the size it has: what a failed fsync gave up may have been a cut
    if not found.clean:
        begin = found.durable_position if found.durable_position > SIZE else 0
        for position in range(begin, end, _REWRITE_BYTES):
            file.write(position, [file.read(position, min(_REWRITE_BYTES, end - position))])
        file.sync()
        disk.sync_directory(directory)
    return file


def write_index(disk: Disk, directory: str, segment: Segment, index: SparseIndex) -> None:
    """Not synced: an index that a power cut damages is made anew from its segment."""
    data = index_format.encode(segment.index_header(), index.offsets, index.positions, index.times)
    files.write_file(disk, directory, names.index_name(segment.number), data, sync=False)


def write_mark(file: File, segment: Segment, *, clean: bool) -> None:
    mark = DurableMark(clean, segment.number, segment.end_position, segment.end_offset, segment.last_block_hash)
    file.write(0, [mark_format.encode(mark)])


def require_appendable(found: Survey) -> None:
    if found.read_only is not None:
        raise CorruptData(
            f"acknowledged data is missing from the end of this log: {found.read_only.describe()}.",
            hint="It can still be read. Restore the segment from a copy before appending.",
        )
