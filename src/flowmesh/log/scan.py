"""Walking a segment entry by entry, checking each: the one reader under serving, recovery, verify and rebuilds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from flowmesh.base.limits import BATCH_BYTES_MAX, MIB
from flowmesh.format import batch as batches
from flowmesh.format import block as blocks
from flowmesh.format.batch import Batch, BatchHeader
from flowmesh.format.block import BlockHeader
from flowmesh.format.segment import SegmentHeader
from flowmesh.log.findings import Damage, Finding
from flowmesh.ports.disk import File

CHUNK_BYTES = 1 * MIB
_LENGTH_MIN = blocks.HEADER_SIZE + batches.HEADER_SIZE + blocks.CRC.size
_LENGTH_MAX = blocks.HEADER_SIZE + BATCH_BYTES_MAX + blocks.CRC.size
_LENGTH_SIZE = blocks.LENGTH.size
_HOPS_MAX = 64
_SIGNATURE = bytes((blocks.HEADER_SIZE, 0, 0, 0, blocks.HEADER_VERSION))
"""What stands after the length of every entry: where a walk that lost its way looks for the next one."""


class Block(NamedTuple):
    """One sound entry, as views into the bytes that were read."""

    segment: SegmentHeader
    position: int
    entry: memoryview
    header: BlockHeader
    batch_header: BatchHeader

    @property
    def base_offset(self) -> int:
        return self.batch_header.base_offset

    @property
    def end_offset(self) -> int:
        return self.batch_header.base_offset + self.batch_header.count

    @property
    def end_position(self) -> int:
        return self.position + len(self.entry)

    @property
    def data(self) -> memoryview:
        return self.entry[blocks.PREFIX_SIZE : -blocks.CRC.size]

    @property
    def batch(self) -> Batch:
        return Batch(self.batch_header, self.entry[blocks.PREFIX_SIZE + batches.HEADER_SIZE : -blocks.CRC.size])

    @property
    def id(self) -> str:
        return blocks.block_id(self.segment.hash, self.header.hash)


class Position(NamedTuple):
    """A place between two entries. `offset` is -1 and `previous_hash` empty where they are not known."""

    position: int
    offset: int
    previous_hash: bytes


def parse(segment: SegmentHeader, entry: memoryview, position: int) -> Block:
    """A block from an entry whose length and checksum are known to be right: it was sealed here, or examined."""
    header = BlockHeader._make(blocks.PREFIX.unpack_from(entry))
    return Block(
        segment, position, entry, header, BatchHeader._make(batches.HEADER.unpack_from(entry, blocks.PREFIX_SIZE))
    )


def examine(
    segment: SegmentHeader, data: memoryview, start: int, expected: Position, *, deep: bool = False
) -> Block | Finding:
    """The entry at `data[start:]`, or what is wrong with it. SHORT also means: `data` ends before the entry does."""
    available = len(data) - start
    if available < _LENGTH_SIZE:
        return Finding.SHORT
    length = blocks.LENGTH.unpack_from(data, start)[0]
    if not _LENGTH_MIN <= length <= _LENGTH_MAX:
        return Finding.BAD_LENGTH
    if available < _LENGTH_SIZE + length:
        return Finding.SHORT
    entry = data[start : start + _LENGTH_SIZE + length]
    if not blocks.crc_is_right(entry):
        return Finding.BAD_CRC
    block = parse(segment, entry, expected.position)
    header = block.header
    if header.version != blocks.HEADER_VERSION or header.header_length != blocks.HEADER_SIZE:
        return Finding.UNKNOWN_VERSION
    data_length = _LENGTH_SIZE + length - blocks.OVERHEAD
    if header.data_offset != expected.position + blocks.PREFIX_SIZE or header.data_length != data_length:
        return Finding.WRONG_POSITION
    if expected.previous_hash and header.previous_hash != expected.previous_hash:
        return Finding.WRONG_PREVIOUS_HASH
    if batches.header_fault(block.batch_header):
        newer = block.batch_header.version != batches.VERSION
        return Finding.UNKNOWN_VERSION if newer else Finding.BAD_BATCH
    if expected.offset >= 0 and block.batch_header.base_offset != expected.offset:
        return Finding.WRONG_BASE_OFFSET
    if deep and not blocks.hash_is_right(header, block.data):
        return Finding.BAD_HASH
    return block


def scan(
    file: File,
    number: int,
    segment: SegmentHeader,
    start: Position,
    end: int,
    *,
    deep_from: int | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    stop: int | None = None,
) -> Iterator[Block | Damage]:
    """Every entry in `[start, end)` in order; where one is not sound, the damaged range, and then what follows it.

    Hashes are computed from `deep_from` on; before it checksums and links are checked. The last thing yielded is a
    Damage without an end offset when nothing sound follows a fault. With `stop` nothing is read for an entry that ends
    past it, but for the first one.
    """
    deep_from = end if deep_from is None else deep_from
    limit = end
    expected, data, origin, entry_bytes = start, memoryview(b""), start.position, 0
    while expected.position < limit:
        found = examine(segment, data, expected.position - origin, expected, deep=expected.position >= deep_from)
        if found is Finding.SHORT and origin + len(data) < end:
            chunk_bytes = _whole_entries(chunk_bytes, entry_bytes)
            want = _needed(data, expected.position - origin, chunk_bytes)
            if stop is not None and expected.position > start.position:
                least = _needed(data, expected.position - origin, 0)
                if least > stop - expected.position:
                    return
                want = max(least, min(chunk_bytes, stop - expected.position))
            want = min(want, end - expected.position)
            origin = expected.position
            data = memoryview(file.read(origin, want))
            if len(data) < want:
                end = origin + len(data)
            continue
        if isinstance(found, Block):
            entry_bytes = len(found.entry)
            expected = Position(found.end_position, found.end_offset, found.header.hash)
            yield found
            continue
        resumed = _resume(file, segment, expected, end)
        if resumed is None:
            yield Damage(number, expected.position, limit, expected.offset, -1, found)
            return
        yield Damage(number, expected.position, resumed.position, expected.offset, resumed.base_offset, found)
        expected = Position(resumed.position, resumed.base_offset, resumed.header.previous_hash)


def _needed(data: memoryview, start: int, chunk_bytes: int) -> int:
    """How much to read for the entry at `start` to be whole, as far as its length is known."""
    if len(data) - start < _LENGTH_SIZE:
        return max(chunk_bytes, _LENGTH_SIZE)
    return max(chunk_bytes, _LENGTH_SIZE + int(blocks.LENGTH.unpack_from(data, start)[0]))


def _whole_entries(chunk_bytes: int, entry_bytes: int) -> int:
    """A chunk that ends between two entries when they are all alike, so that nothing is read twice."""
    if not entry_bytes or chunk_bytes < CHUNK_BYTES:
        return chunk_bytes
    return max(CHUNK_BYTES // entry_bytes, 1) * entry_bytes


def _resume(file: File, segment: SegmentHeader, lost: Position, end: int) -> Block | None:
    """The next entry after a fault that is sound by itself and says that it stands where it stands."""
    for candidate, trusted in _candidates(file, lost.position, end):
        block = read_entry(file, segment, Position(candidate, -1, b""), end)
        if isinstance(block, Block) and block.base_offset > lost.offset and (trusted or _is_linked(file, block, end)):
            return block
    return None


def _candidates(file: File, lost: int, end: int) -> Iterator[tuple[int, bool]]:
    """Where the next entry may begin: first where the lengths lead, then wherever something looks like a header.

    What only looks like one may be bytes that a producer put into a value, so it must prove that the chain goes on.
    """
    position = lost
    for _ in range(_HOPS_MAX):
        head = file.read(position, _LENGTH_SIZE)
        length = blocks.LENGTH.unpack(head)[0] if len(head) == _LENGTH_SIZE else 0
        if not _LENGTH_MIN <= length <= _LENGTH_MAX or position + _LENGTH_SIZE + length >= end:
            break
        position += _LENGTH_SIZE + length
        yield position, True
    for origin in range(lost + 1, end, CHUNK_BYTES):
        data = file.read(origin, min(CHUNK_BYTES + len(_SIGNATURE) + _LENGTH_SIZE, end - origin))
        place = data.find(_SIGNATURE, _LENGTH_SIZE)
        while place >= 0:
            yield origin + place - _LENGTH_SIZE, False
            place = data.find(_SIGNATURE, place + 1)


def _is_linked(file: File, block: Block, end: int) -> bool:
    after = block.end_position
    if after == end:
        return True
    head = file.read(after, blocks.PREFIX_SIZE)
    return len(head) == blocks.PREFIX_SIZE and blocks.decode_prefix(head).previous_hash == block.header.hash


def read_entry(file: File, segment: SegmentHeader, expected: Position, end: int) -> Block | Finding:
    """One entry by its position alone."""
    head = file.read(expected.position, min(blocks.PREFIX_SIZE, end - expected.position))
    if len(head) < blocks.PREFIX_SIZE:
        return Finding.SHORT
    header = blocks.decode_prefix(head)
    if not _LENGTH_MIN <= header.entry_length <= _LENGTH_MAX:
        return Finding.BAD_LENGTH
    if header.data_offset != expected.position + blocks.PREFIX_SIZE:
        return Finding.WRONG_POSITION
    whole = min(_LENGTH_SIZE + header.entry_length, end - expected.position)
    return examine(segment, memoryview(file.read(expected.position, whole)), 0, expected)
