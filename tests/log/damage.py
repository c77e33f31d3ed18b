"""Small logs on a real disk, and ways to damage them: bit by bit, or with checksums and hashes made right again."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from flowmesh.base.limits import SEGMENT_BYTES_MIN
from flowmesh.format import block as block_format
from flowmesh.format import chain as chain_format
from flowmesh.format import columns, names
from flowmesh.format import segment as segment_format
from flowmesh.format.batch import Batch
from flowmesh.format.checksum import crc32c
from flowmesh.format.segment import SegmentHeader
from flowmesh.host.disk import RealDisk
from flowmesh.log.appender import Appender
from flowmesh.log.findings import Note
from flowmesh.log.open_log import open_log, read_log
from flowmesh.log.options import LogOptions
from flowmesh.log.scan import Block
from flowmesh.log.sealing import Appended
from flowmesh.log.view import LogView
from flowmesh.ports.disk import Disk
from flowmesh.sim.clock import START_WALL_NS, SimClock

CHAIN = chain_format.checked(bytes(range(8)), "orders/0", START_WALL_NS)
OTHER_CHAIN = chain_format.checked(bytes(range(8)), "orders/1", START_WALL_NS)
SMALL = LogOptions(segment_bytes=SEGMENT_BYTES_MIN, segment_records=6, disk_reserve_bytes=0, tail_cache_bytes=0)
"""Three blocks of two records fill a segment; no cache, so that every read comes from the disk."""

DISK = RealDisk()


def open_here(
    directory: Path | str, options: LogOptions = SMALL, *, disk: Disk = DISK, clock: SimClock | None = None
) -> Appender:
    return open_log(disk, str(directory), clock or SimClock(), options, create=CHAIN)


def read_here(directory: Path | str, disk: Disk = DISK) -> LogView:
    return read_log(disk, str(directory))


def value(offset: int) -> bytes:
    """What the record at `offset` holds, unlike every other one."""
    return b"value-%06d" % offset


def batch(first: int, count: int = 2, *, times_ns: Sequence[int] | None = None) -> Batch:
    return columns.encode([value(offset) for offset in range(first, first + count)], times_ns=times_ns)


def append(log: Appender, blocks: int = 1, count: int = 2) -> list[Appended]:
    """So many blocks, each written and synced, at the end of the log."""
    appended = []
    for _ in range(blocks):
        (result,) = log.write([batch(log.written_end, count)])
        assert isinstance(result, Appended), result
        log.sync()
        appended.append(result)
    return appended


def values_of(blocks: Iterable[Block]) -> dict[int, bytes | None]:
    return {record.offset: record.value for block in blocks for record in columns.decode(block.batch).records()}


def values(view: LogView, offset: int | None = None) -> dict[int, bytes | None]:
    """Every record of the view from `offset` on."""
    return values_of(view.blocks(offset))


def written(*ranges: range) -> dict[int, bytes | None]:
    """What a log must hold at these offsets."""
    return {offset: value(offset) for offsets in ranges for offset in offsets}


def about(notes: Iterable[Note], *nouns: object) -> list[Note]:
    """The notes whose fields include all of `nouns`."""
    return [note for note in notes if all(noun in note for noun in nouns)]


# --- whole directories ------------------------------------------------------------------------------------------------


def snapshot(directory: Path) -> dict[str, bytes]:
    """Every file by name. Taken beside a live writer it is what kill -9 leaves."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def restore(directory: Path, files: dict[str, bytes]) -> None:
    directory.mkdir(exist_ok=True)
    for path in directory.iterdir():
        if path.name not in files:
            path.unlink()
    for name, data in files.items():
        (directory / name).write_bytes(data)


def segments_of(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name.endswith(".log")}


def segment_path(directory: Path, number: int) -> Path:
    return directory / names.segment_name(number)


def index_path(directory: Path, number: int) -> Path:
    return directory / names.index_name(number)


def flip(path: Path, position: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


# --- inside a segment -------------------------------------------------------------------------------------------------

Change = Callable[[bytearray], None]

LENGTH = 0
VERSION = 8
DATA_OFFSET = 89
DATA = block_format.PREFIX_SIZE
BATCH_COUNT = DATA + 4
BATCH_BASE_OFFSET = DATA + 8
_FIELDS = struct.Struct("<8sIB32s32s32sQQQ")


def bounds(data: bytes) -> list[tuple[int, int]]:
    """Where each entry of a sound segment begins and ends."""
    found = []
    position = segment_format.SIZE
    while position < len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4], "little")
        found.append((position, end))
        position = end
    return found


def change_entry(path: Path, row: int, change: Change, *, crc: bool = True, rehash: bool = False) -> None:
    """Changes one entry of a segment and, where asked, puts its hash and its checksum right again."""
    data = bytearray(path.read_bytes())
    begin, end = bounds(bytes(data))[row]
    entry = data[begin:end]
    change(entry)
    data[begin:end] = sealed(entry, rehash=rehash) if crc else entry
    path.write_bytes(data)


def sealed(entry: bytearray, *, rehash: bool = True) -> bytearray:
    if rehash:
        header = block_format.decode_prefix(entry)
        body = entry[block_format.PREFIX_SIZE : -block_format.CRC.size]
        entry[block_format.HASH] = block_format.block_hash(header.previous_hash, header.timestamp_ns, body)
    entry[-4:] = crc32c(bytes(entry[:-4])).to_bytes(4, "little")
    return entry


def put(position: int, data: bytes) -> Change:
    def change(entry: bytearray) -> None:
        entry[position : position + len(data)] = data

    return change


def toggle(position: int) -> Change:
    def change(entry: bytearray) -> None:
        entry[position] ^= 1

    return change


def header_of(path: Path) -> SegmentHeader:
    return segment_format.decode(path.read_bytes())


def replace_header(path: Path, **fields: Any) -> None:
    """Other fields in a segment header, whose own hash is right."""
    header = header_of(path)._replace(**fields)
    packed = segment_format.encode(
        header.chain_hash,
        header.previous_segment_hash,
        header.previous_block_hash,
        header.base_offset,
        header.created_ns,
    )
    path.write_bytes(packed + path.read_bytes()[segment_format.SIZE :])


def unknown_header_version(path: Path) -> None:
    """A header of version 2 that is sound in every other way."""
    data = path.read_bytes()
    fields = bytearray(data[: _FIELDS.size])
    fields[12] = 2
    path.write_bytes(fields + hashlib.sha256(fields).digest() + data[segment_format.SIZE :])


def rechained(files: Sequence[Path], edit: Change, row: int = 0) -> None:
    """Edits one entry of the first file and computes everything after it anew: the perfect forgery."""
    previous_segment = previous_block = b""
    for number, path in enumerate(files):
        data = path.read_bytes()
        places = bounds(data)
        if number:
            replace_header(path, previous_segment_hash=previous_segment, previous_block_hash=previous_block)
            data = path.read_bytes()
        header = segment_format.decode(data)
        previous_segment, previous_block = header.hash, header.hash
        out = bytearray(data[: segment_format.SIZE])
        for index, (begin, end) in enumerate(places):
            entry = bytearray(data[begin:end])
            if number == 0 and index == row:
                edit(entry)
            entry[block_format.PREVIOUS_HASH] = previous_block
            out += sealed(entry)
            previous_block = bytes(entry[block_format.HASH])
        path.write_bytes(out)
