"""A batch: the 64-byte header before a block's columns, and the codec of those columns. See docs/formats/batch.md."""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag
from typing import NamedTuple

import zstandard

from flowmesh.base.buffers import Buffer
from flowmesh.base.errors import BadRequest, CorruptData, TooLarge, UnsupportedVersion
from flowmesh.base.limits import BATCH_BYTES_DECODED_MAX, BATCH_BYTES_MAX, BATCH_RECORDS_MAX
from flowmesh.base.times import UNSTAMPED

VERSION = 1
HEADER = struct.Struct("<BBBBIQqqQQIIII")
HEADER_SIZE = HEADER.size
NO_PRODUCER = 0
ZSTD_LEVEL = 1
OFFSET_MAX = 2**63 - 1
"""Offsets are u64 on disk and int64 in Arrow and Spark; what both can hold is what a batch may have."""


class BatchKind(IntEnum):
    RECORDS = 0
    CONTROL = 1
    FOREIGN = 2


class Codec(IntEnum):
    NONE = 0
    ZSTD = 1


class ColumnFlag(IntFlag):
    """Which columns the body has beside the values."""

    TIMES = 1
    VALUE_NULLS = 2
    KEYS = 4
    KEY_NULLS = 8
    HEADERS = 16


# Plain numbers, because every entry that is read is compared with them, and an enum's members cost ten times as much.
_FLAGS_UNKNOWN = ~sum(ColumnFlag)
_KIND_MAX, _CODEC_MAX = int(BatchKind.FOREIGN), int(Codec.ZSTD)


class BatchHeader(NamedTuple):
    version: int
    kind: int
    codec: int
    flags: int
    count: int  # type: ignore[assignment]  # it hides tuple.count, which nobody needs here
    base_offset: int
    base_time_ns: int
    max_time_ns: int
    producer_id: int
    first_sequence: int
    producer_epoch: int
    leader_epoch: int
    schema_version: int
    body_bytes: int
    """The body's size before compression."""

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.count


class Producer(NamedTuple):
    """Who sent a batch, and which of its batches it is: what makes a second sending harmless."""

    id: int
    epoch: int
    first_sequence: int


ANONYMOUS = Producer(NO_PRODUCER, 0, 0)


class Batch(NamedTuple):
    header: BatchHeader
    body: Buffer

    @property
    def size(self) -> int:
        return HEADER_SIZE + len(self.body)


def make(
    body: Buffer,
    *,
    kind: BatchKind = BatchKind.RECORDS,
    flags: int = 0,
    count: int,
    base_time_ns: int = UNSTAMPED,
    max_time_ns: int = UNSTAMPED,
    producer: Producer = ANONYMOUS,
    schema_version: int = 0,
    codec: Codec = Codec.NONE,
) -> Batch:
    """A batch not yet in a log: offset 0, leader epoch 0. Compresses the body when the codec says so."""
    if not 1 <= count <= BATCH_RECORDS_MAX:
        raise BadRequest(f"a batch holds 1 to {BATCH_RECORDS_MAX} records, not {count}.", field="count")
    body_bytes = len(body)
    if body_bytes > BATCH_BYTES_DECODED_MAX:
        raise TooLarge(
            f"a batch of {body_bytes} bytes is over the limit of {BATCH_BYTES_DECODED_MAX}.", field="records"
        )
    if codec is Codec.ZSTD:
        body = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(body)
    if HEADER_SIZE + len(body) > BATCH_BYTES_MAX:
        raise TooLarge(
            f"a batch of {HEADER_SIZE + len(body)} bytes is over the limit of {BATCH_BYTES_MAX}.",
            field="records",
            hint="Send fewer records in one batch.",
        )
    header = BatchHeader(
        VERSION,
        kind,
        codec,
        flags,
        count,
        0,
        base_time_ns,
        max_time_ns,
        producer.id,
        producer.first_sequence,
        producer.epoch,
        0,
        schema_version,
        body_bytes,
    )
    return Batch(header, body)


def foreign(body: Buffer, count: int, *, base_time_ns: int = UNSTAMPED, max_time_ns: int = UNSTAMPED) -> Batch:
    """Another system's batch, kept byte for byte: FlowMesh counts its records and does not look inside."""
    return make(body, kind=BatchKind.FOREIGN, count=count, base_time_ns=base_time_ns, max_time_ns=max_time_ns)


def stamp(header: BatchHeader, base_offset: int, leader_epoch: int, timestamp_ns: int) -> bytes:
    """The header as it goes to disk: what only the log can know is put in."""
    # Taken apart by name: slices of the tuple cost twice as much, once for every batch of every commit.
    version, kind, codec, flags, count, _, base, latest, producer, sequence, epoch, _, schema, body_bytes = header
    if base == UNSTAMPED:
        base = latest = timestamp_ns
    return HEADER.pack(
        version, kind, codec, flags, count, base_offset, base, latest, producer, sequence, epoch, leader_epoch, schema,
        body_bytes,
    )  # fmt: skip


def decode_header(data: Buffer, position: int = 0) -> BatchHeader:
    try:
        return BatchHeader._make(HEADER.unpack_from(data, position))
    except struct.error as error:
        raise CorruptData(f"a batch has at least {HEADER_SIZE} bytes, this one ends before that.") from error


def decode(data: Buffer) -> Batch:
    """Header and body of a stored batch; the body stays as it is, compressed or not."""
    if len(data) < HEADER_SIZE:
        raise CorruptData(f"a batch has at least {HEADER_SIZE} bytes, this one has {len(data)}.")
    header = decode_header(data)
    fault = header_fault(header)
    if fault:
        raise UnsupportedVersion(fault) if header.version != VERSION else CorruptData(fault)
    return Batch(header, memoryview(data)[HEADER_SIZE:])


def is_possible(version: int, kind: int, codec: int, flags: int, count: int, base_offset: int, body_bytes: int) -> bool:
    """Whether a header may say this. Asked for every block that is read, so it takes numbers and makes nothing."""
    return (
        version == VERSION
        and kind <= _KIND_MAX
        and codec <= _CODEC_MAX
        and not flags & _FLAGS_UNKNOWN
        and 1 <= count <= BATCH_RECORDS_MAX
        and body_bytes <= BATCH_BYTES_DECODED_MAX
        and base_offset + count <= OFFSET_MAX
    )


def header_fault(header: BatchHeader) -> str | None:
    """What makes this header impossible, or None."""
    version, kind, codec, flags, count, base_offset, *_, body_bytes = header
    if is_possible(version, kind, codec, flags, count, base_offset, body_bytes):
        return None
    if version != VERSION:
        return f"batch version {version} is unknown; this is version {VERSION}."
    if kind > _KIND_MAX or codec > _CODEC_MAX or flags & _FLAGS_UNKNOWN:
        return f"batch kind {kind}, codec {codec} or flags {flags} are unknown."
    if not 1 <= count <= BATCH_RECORDS_MAX:
        return f"a batch holds 1 to {BATCH_RECORDS_MAX} records, not {count}."
    if body_bytes > BATCH_BYTES_DECODED_MAX:
        return f"a batch body of {body_bytes} bytes is over the limit of {BATCH_BYTES_DECODED_MAX}."
    return f"a batch's offsets end at {base_offset + count}, over the limit of {OFFSET_MAX}."


def unpacked_body(batch: Batch) -> memoryview:
    """The body without its codec. The size is checked before memory is taken for it."""
    header, body = batch
    if header.codec == Codec.NONE:
        plain = memoryview(body)
    else:
        try:
            if zstandard.frame_content_size(body) != header.body_bytes:
                raise CorruptData("a compressed batch does not have the size that its header says.")
            unfold = zstandard.ZstdDecompressor().decompress
            # Bytes after the frame would be stored and hashed, yet seen by no reader.
            plain = memoryview(unfold(body, max_output_size=header.body_bytes, allow_extra_data=False))
        except zstandard.ZstdError as error:
            raise CorruptData(f"a compressed batch does not unfold: {error}") from error
    if len(plain) != header.body_bytes:
        raise CorruptData(f"a batch body has {len(plain)} bytes where its header says {header.body_bytes}.")
    return plain
