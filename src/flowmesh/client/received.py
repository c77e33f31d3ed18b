"""What a consumer is given: batches as they stand in the log, checked, and as columns, records or Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flowmesh.base.buffers import Buffer
from flowmesh.base.errors import CorruptData
from flowmesh.format import batch as batches
from flowmesh.format import block as blocks
from flowmesh.format.batch import Batch, BatchKind
from flowmesh.format.columns import Columns, Record, decode

if TYPE_CHECKING:
    import pyarrow as pa


class ReceivedBatch:
    """Records of one partition that were stored together. `skip` of them lie before the offset that was asked for."""

    __slots__ = ("_columns", "batch", "partition", "skip")

    def __init__(self, partition: int, batch: Batch, skip: int) -> None:
        self.partition = partition
        self.batch = batch
        self.skip = skip
        self._columns: Columns | None = None

    def __len__(self) -> int:
        return self.batch.header.count - self.skip

    @property
    def base_offset(self) -> int:
        return self.batch.header.base_offset + self.skip

    @property
    def end_offset(self) -> int:
        return self.batch.header.end_offset

    @property
    def columns(self) -> Columns:
        """The whole batch, with what is to be skipped, as views into the bytes that arrived."""
        if self._columns is None:
            self._columns = decode(self.batch)
        return self._columns

    def values(self) -> list[bytes | None]:
        return self.columns.values.nullable_items()[self.skip :]

    def records(self) -> list[Record]:
        return self.columns.records()[self.skip :]

    def arrow(self) -> pa.RecordBatch:
        """Needs the `arrow` extra."""
        from flowmesh.format.arrow import to_arrow

        return to_arrow(self.batch).slice(self.skip)


def entries(body: Buffer) -> Iterator[memoryview]:
    """The entries of a read's or push's body, each with its checksum verified."""
    view, position = memoryview(body), 0
    while position < len(view):
        size = int.from_bytes(view[position : position + blocks.LENGTH.size], "little") + blocks.LENGTH.size
        entry = view[position : position + size]
        if size < blocks.OVERHEAD + batches.HEADER_SIZE or len(entry) != size or not blocks.crc_is_right(entry):
            raise CorruptData("what the node sent is not what its checksum says.", hint="Read it again.")
        yield entry
        position += size


def received(partition: int, body: Buffer, offset: int, *, verify: bool = False) -> list[ReceivedBatch]:
    """The batches in a body, from `offset` on. `verify` also computes every block's hash."""
    found = []
    for entry in entries(body):
        if verify:
            data = entry[blocks.PREFIX_SIZE : -blocks.CRC.size]
            if not blocks.hash_is_right(blocks.decode_prefix(entry), data):
                raise CorruptData("a block's hash is not the one of its content.")
        header = batches.decode_header(entry, blocks.PREFIX_SIZE)
        if header.kind != BatchKind.RECORDS or header.end_offset <= offset:
            continue
        batch = Batch(header, entry[blocks.PREFIX_SIZE + batches.HEADER_SIZE : -blocks.CRC.size])
        found.append(ReceivedBatch(partition, batch, max(offset - header.base_offset, 0)))
    return found
