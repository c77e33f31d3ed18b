"""Walking a segment entry by entry, checking each: the one reader under serving, recovery, verify and rebuilds."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

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
_SIZE_MIN, _SIZE_MAX = _LENGTH_SIZE + _LENGTH_MIN, _LENGTH_SIZE + _LENGTH_MAX
_HOPS_MAX = 64
# What every entry that is read is held against, by names that are found at once.
_PREFIX_SIZE, _HEADER_SIZE, _OVERHEAD, _HEADER_VERSION = (
    blocks.PREFIX_SIZE,
    blocks.HEADER_SIZE,
    blocks.OVERHEAD,
    blocks.HEADER_VERSION,
)
_head_at = struct.Struct(blocks.PREFIX.format + batches.HEADER.format.removeprefix("<")).unpack_from
"""An entry's length, block header and batch header in one piece."""
_SIGNATURE = bytes((blocks.HEADER_SIZE, 0, 0, 0, blocks.HEADER_VERSION))
"""What stands after the length of every entry: where a walk that lost its way looks for the next one."""


class Block(NamedTuple):
    """One sound entry, as a view into the bytes that were read.

    Its headers are taken apart anew each time, because many who read blocks look at neither.
    """

    segment: SegmentHeader
    position: int
    entry: memoryview
    base_offset: int
    end_offset: int

    @property
    def header(self) -> BlockHeader:
        return BlockHeader._make(blocks.PREFIX.unpack_from(self.entry))

    @property
    def batch_header(self) -> BatchHeader:
        return BatchHeader._make(batches.HEADER.unpack_from(self.entry, _PREFIX_SIZE))

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


Run: TypeAlias = list[Block]
"""Blocks one behind the other, at least one of them."""


class Position(NamedTuple):
    """A place between two entries. `offset` is -1 and `previous_hash` empty where they are not known."""

    position: int
    offset: int
    previous_hash: bytes


def parse(segment: SegmentHeader, entry: memoryview, position: int) -> Block:
    """A block from an entry that is known to be right: it was sealed here."""
    header = batches.decode_header(entry, _PREFIX_SIZE)
    return Block(segment, position, entry, header.base_offset, header.end_offset)


def examine(
    segment: SegmentHeader, data: memoryview, start: int, expected: Position, deep_from: int
) -> tuple[list[Block], Position, Finding]:
    """The sound entries at `data[start:]`, the place behind them, and why there is not one more.

    SHORT also means: `data` ends before that one does. All that is read from a medium goes through this loop block by
    block, so it calls and makes as little as it can.
    """
    found: list[Block] = []
    position, offset, previous_hash = expected
    available = len(data)
    fault = Finding.SHORT
    while start + _SIZE_MIN <= available:
        (
            length, header_length, version, block_hash, link, _, _, data_offset, data_length,
            batch_version, kind, codec, flags, count, base_offset, _, _, _, _, _, _, _, body_bytes,
        ) = _head_at(data, start)  # fmt: skip
        size = length + _LENGTH_SIZE
        if not _SIZE_MIN <= size <= _SIZE_MAX:
            fault = Finding.BAD_LENGTH
            break
        if start + size > available:
            break
        entry = data[start : start + size]
        if not blocks.crc_is_right(entry):
            fault = Finding.BAD_CRC
            break
        if version != _HEADER_VERSION or header_length != _HEADER_SIZE:
            fault = Finding.UNKNOWN_VERSION
            break
        if data_offset != position + _PREFIX_SIZE or data_length != size - _OVERHEAD:
            fault = Finding.WRONG_POSITION
            break
        if link != previous_hash and previous_hash:
            fault = Finding.WRONG_PREVIOUS_HASH
            break
        if not batches.is_possible(batch_version, kind, codec, flags, count, base_offset, body_bytes):
            fault = Finding.BAD_BATCH if batch_version == batches.VERSION else Finding.UNKNOWN_VERSION
            break
        if base_offset != offset and offset >= 0:
            fault = Finding.WRONG_BASE_OFFSET
            break
        block = Block(segment, position, entry, base_offset, base_offset + count)
        if position >= deep_from and not blocks.hash_is_right(block.header, block.data):
            fault = Finding.BAD_HASH
            break
        found.append(block)
        start += size
        position += size
        offset = base_offset + count
        previous_hash = block_hash
    else:
        fault = _fault_of_rest(data[start:])
    return found, Position(position, offset, previous_hash), fault


def _fault_of_rest(data: memoryview) -> Finding:
    """What is wrong with bytes that are too few for any entry: they may even so begin with an impossible length."""
    if len(data) < _LENGTH_SIZE or _LENGTH_MIN <= blocks.LENGTH.unpack_from(data)[0] <= _LENGTH_MAX:
        return Finding.SHORT
    return Finding.BAD_LENGTH


def read_on(file: File, segment: SegmentHeader, start: Position, end: int, size: int) -> list[Block]:
    """The entries that stand whole and sound in the next `size` bytes, by one read. Should the first be longer, it
    alone by a second read; none at all when it is not sound."""
    found: list[Block] = []
    for _ in range(2):
        data = memoryview(file.read(start.position, min(size, end - start.position)))
        found, _, fault = examine(segment, data, 0, start, end)
        if found or fault is not Finding.SHORT:
            break
        size = _needed(data, 0)
    return found


def scan(
    file: File,
    number: int,
    segment: SegmentHeader,
    start: Position,
    end: int,
    *,
    deep_from: int | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Block | Damage]:
    """Every entry in `[start, end)` in order; where one is not sound, the damaged range, and then what follows it.

    Hashes are computed from `deep_from` on; before it checksums and links are checked. The last thing yielded is a
    Damage without an end offset when nothing sound follows a fault.
    """
    for found in scan_runs(file, number, segment, start, end, deep_from=deep_from, chunk_bytes=chunk_bytes):
        if isinstance(found, Damage):
            yield found
        else:
            yield from found


def scan_runs(
    file: File,
    number: int,
    segment: SegmentHeader,
    start: Position,
    end: int,
    *,
    deep_from: int | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Run | Damage]:
    """The same as `scan`, with all entries of one read together."""
    deep_from = end if deep_from is None else deep_from
    limit = end
    expected, data, origin, entry_bytes = start, memoryview(b""), start.position, 0
    while expected.position < limit:
        run, expected, fault = examine(segment, data, expected.position - origin, expected, deep_from)
        if run:
            entry_bytes = len(run[-1].entry)
            yield run
            if expected.position >= limit:
                return
        if fault is Finding.SHORT and origin + len(data) < end:
            chunk_bytes = _whole_entries(chunk_bytes, entry_bytes)
            want = max(chunk_bytes, _needed(data, expected.position - origin))
            want = min(want, end - expected.position)
            origin = expected.position
            data = memoryview(file.read(origin, want))
            if len(data) < want:
                end = origin + len(data)
            continue
        resumed = _resume(file, segment, expected, end)
        if resumed is None:
            yield Damage(number, expected.position, limit, expected.offset, -1, fault)
            return
        yield Damage(number, expected.position, resumed.position, expected.offset, resumed.base_offset, fault)
        expected = Position(resumed.position, resumed.base_offset, resumed.header.previous_hash)


def _needed(data: memoryview, start: int) -> int:
    """How much to read for the entry at `start` to be whole, as far as its length is known."""
    if len(data) - start < _LENGTH_SIZE:
        return _LENGTH_SIZE
    return _LENGTH_SIZE + int(blocks.LENGTH.unpack_from(data, start)[0])


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
    found, _, fault = examine(segment, memoryview(file.read(expected.position, whole)), 0, expected, end)
    return found[0] if found else fault
