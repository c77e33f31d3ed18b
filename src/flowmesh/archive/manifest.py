"""The manifest: which files an archive consists of, and the hashes that tie them to the log. No I/O.

See docs/formats/archive-manifest.md.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from flowmesh.archive import names
from flowmesh.base.errors import CorruptData
from flowmesh.base.times import NANOSECONDS
from flowmesh.format import segment as segment_format
from flowmesh.format.chain import ChainIdentity, require_version
from flowmesh.format.segment import NO_HASH

FORMAT = "flowmesh.archive"
VERSION = 1
NO_PREVIOUS = NO_HASH.hex()
_HASH_HEX = 64


class ArchivedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One Parquet file: the records of a run of whole blocks."""

    name: str
    """Below the root of the archive."""
    base_offset: int
    end_offset: int
    records: int
    """Fewer than there are offsets when a block of the log holds no records of its producers."""
    size_bytes: int
    sha256: str
    min_time_ns: int
    max_time_ns: int
    previous_block_hash: str
    """What the first block hangs on: the block before it, or the segment that it is the first of."""
    last_block_hash: str


class ArchivedSegment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the archive holds of one segment of the log: all of it, but for the last one, which may still grow."""

    number: int
    hash: str
    created_ns: int
    base_offset: int
    end_offset: int
    last_block_hash: str


class ArchivedPartition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One chain. The two previous hashes are what its first archived segment hangs on: zeros at the very beginning."""

    partition: int
    local_id: str
    chain_name: str
    chain_created_ns: int
    previous_segment_hash: str
    previous_block_hash: str
    segments: tuple[ArchivedSegment, ...] = ()
    files: tuple[ArchivedFile, ...] = ()

    @property
    def chain(self) -> ChainIdentity:
        return ChainIdentity(bytes.fromhex(self.local_id), self.chain_name, self.chain_created_ns)

    @property
    def start_offset(self) -> int:
        return self.segments[0].base_offset if self.segments else 0

    @property
    def end_offset(self) -> int:
        """The next offset to archive: the cold tier ends before it."""
        return self.segments[-1].end_offset if self.segments else 0

    def hashes_at(self, offset: int) -> set[str]:
        """Those of the blocks that are known to end at `offset`, and of the segments that begin there."""
        found = {file.last_block_hash for file in self.files if file.end_offset == offset}
        found |= {segment.last_block_hash for segment in self.segments if segment.end_offset == offset}
        return found | {segment.hash for segment in self.segments if segment.base_offset == offset}


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that an archive holds, at one moment. A newer one replaces it as a whole."""

    number: int
    previous: str
    """The hash of the manifest before this one; zeros for the first."""
    created_ns: int
    stream: str
    partitions: tuple[ArchivedPartition, ...] = ()

    @property
    def hash(self) -> str:
        return hashlib.sha256(msgspec.json.encode(_body(self))).hexdigest()

    @property
    def files(self) -> tuple[ArchivedFile, ...]:
        return tuple(file for partition in self.partitions for file in partition.files)

    def partition(self, number: int) -> ArchivedPartition | None:
        return next((found for found in self.partitions if found.partition == number), None)


def _body(manifest: Manifest) -> dict[str, Any]:
    return {"format": FORMAT, "version": VERSION, **msgspec.to_builtins(manifest)}


def encode(manifest: Manifest) -> bytes:
    body = _body(manifest)
    body["hash"] = manifest.hash
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"


def decode(data: bytes) -> Manifest:
    """The manifest if its hash covers it. Whether its parts fit together is for `faults` to say."""
    document = require_version(data, FORMAT, VERSION)
    stated = document.get("hash")
    fields = {key: value for key, value in document.items() if key not in ("format", "version", "hash")}
    try:
        manifest = msgspec.convert(fields, Manifest)
    except (msgspec.MsgspecError, ValueError) as error:
        raise CorruptData(f"the manifest is damaged: {error}") from error
    if any(not names.is_data(file.name) for file in manifest.files):
        raise CorruptData("the manifest is damaged: it names a file that no archive has.")
    if stated != manifest.hash:
        raise CorruptData("the manifest is damaged: its hash does not cover its fields.")
    return manifest


def faults(manifest: Manifest) -> list[str]:
    """Why this manifest cannot be of one unbroken history; empty when it can."""
    found = []
    numbers = [partition.partition for partition in manifest.partitions]
    if numbers != sorted(set(numbers)):
        found.append("its partitions are not in order, or one of them is there twice")
    for partition in manifest.partitions:
        where = f"partition {partition.partition}"
        try:
            found += [f"{where}: {fault}" for fault in (*_segment_faults(partition), *_file_faults(partition))]
        except (ValueError, OverflowError) as error:
            found.append(f"{where}: {error}")
    return found


def require_whole(manifest: Manifest) -> Manifest:
    found = faults(manifest)
    if found:
        raise CorruptData(f"manifest {manifest.number} is not of one unbroken history: {found[0]}.")
    return manifest


def _segment_faults(partition: ArchivedPartition) -> list[str]:
    """Every segment's hash made anew from the segment before it: the chain as `docs/formats/segment.md` has it."""
    found = []
    chain_hash = partition.chain.hash
    before_segment, before_block = partition.previous_segment_hash, partition.previous_block_hash
    expected = partition.start_offset
    for segment in partition.segments:
        where = f"segment {segment.number}"
        if segment.base_offset != expected or segment.end_offset < segment.base_offset:
            found.append(f"{where} holds offsets [{segment.base_offset}, {segment.end_offset}), not from {expected}")
        header = segment_format.encode(
            chain_hash, _hash(before_segment), _hash(before_block), segment.base_offset, segment.created_ns
        )
        if header[-32:].hex() != segment.hash:
            found.append(f"{where} is not linked to the one before it")
        before_segment, before_block, expected = segment.hash, segment.last_block_hash, segment.end_offset
    return found


def _file_faults(partition: ArchivedPartition) -> list[str]:
    """Files follow each other without a gap, each hanging on the block before it, and end where the segments end."""
    found = []
    begins = {segment.base_offset: segment.hash for segment in partition.segments}
    ends: dict[int, set[str]] = {}
    for segment in partition.segments:
        ends.setdefault(segment.end_offset, set()).add(segment.last_block_hash)
    expected, link = partition.start_offset, ""
    for file in partition.files:
        if file.base_offset != expected or not 0 <= file.records <= file.end_offset - file.base_offset:
            found.append(f"{file.name} holds offsets [{file.base_offset}, {file.end_offset}), not from {expected}")
        if file.previous_block_hash != begins.get(file.base_offset, link):
            found.append(f"{file.name} is not linked to the block before it")
        if file.last_block_hash not in ends.get(file.end_offset, {file.last_block_hash}):
            found.append(f"{file.name} does not end with the last block of its segment")
        for digest in (file.sha256, file.previous_block_hash, file.last_block_hash):
            _hash(digest)
        expected, link = file.end_offset, file.last_block_hash
    if expected != partition.end_offset:
        found.append(f"its files end at offset {expected}, its segments at {partition.end_offset}")
    return found


def _hash(text: str) -> bytes:
    data = bytes.fromhex(text)
    if len(text) != _HASH_HEX or data.hex() != text:
        raise ValueError("a hash has 64 small hex digits")
    return data


def segment_of(
    number: int, header: segment_format.SegmentHeader, end_offset: int, last_block_hash: bytes
) -> ArchivedSegment:
    created_ns = header.seconds * NANOSECONDS + header.nanoseconds
    return ArchivedSegment(number, header.hash.hex(), created_ns, header.base_offset, end_offset, last_block_hash.hex())
