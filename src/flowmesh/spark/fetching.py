"""Blocks of one piece, from files where they can be seen and else from the node; every one is checked on the way.

Checked is what the SDK checks: each checksum, and beside that the link to the block before. `verify` hashes as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import msgspec

from flowmesh.base.errors import CorruptData, OffsetOutOfRange
from flowmesh.base.limits import MIB
from flowmesh.client.direct import DirectConnection
from flowmesh.client.received import entries
from flowmesh.format import batch as batches
from flowmesh.format import block as blocks
from flowmesh.format.batch import Batch
from flowmesh.format.block import HASH, PREVIOUS_HASH
from flowmesh.format.frame import Frame
from flowmesh.log.view import LogView
from flowmesh.operations.frames import BlocksRead
from flowmesh.operations.messages import ReadRecords
from flowmesh.spark.errors import TRANSIENT
from flowmesh.spark.file_stream import current_view, partition_directory
from flowmesh.spark.location import Location, Range
from flowmesh.spark.node_stream import NodeLine
from flowmesh.spark.reading import Stored

FETCH_BYTES = 4 * MIB
_BODY = blocks.PREFIX_SIZE + batches.HEADER_SIZE
_decode_blocks = msgspec.msgpack.Decoder(BlocksRead).decode


def stored_blocks(location: Location, piece: Range, *, verify: bool = False) -> Iterator[Stored]:
    """All blocks that hold a part of the piece, in order. Raises OffsetOutOfRange where they are gone."""
    view = _visible(location, piece)
    if view is not None:
        return _from_files(view, piece, verify=verify)
    assert location.node is not None, "a location is a node, or files, or both"
    return _from_node(location, piece, verify=verify)


# --- files --------------------------------------------------------------------------------------------------------


def _visible(location: Location, piece: Range) -> LogView | None:
    """The log's files, when they are there and have all of the piece; without a node they must."""
    if location.data_dir is None:
        return None
    directory = partition_directory(location.data_dir, location.stream, piece.partition)
    if location.node is None:
        return current_view(directory)
    if not directory.is_dir():
        return None
    view = current_view(directory)
    return view if view.start_offset <= piece.start and piece.end <= view.end_offset else None


def _from_files(view: LogView, piece: Range, *, verify: bool) -> Iterator[Stored]:
    offset, cursor, previous = piece.start, None, b""
    while offset < piece.end:
        chunk = view.read(offset, FETCH_BYTES, cursor)
        offset, cursor = chunk.next_offset, chunk.cursor
        for block in chunk.blocks:
            if block.base_offset >= piece.end:
                return
            header = block.header
            if previous and header.previous_hash != previous and header.previous_hash != block.segment.hash:
                raise CorruptData(f"the block at offset {block.base_offset} does not follow the one before it.")
            if verify and not blocks.hash_is_right(header, block.data):
                raise CorruptData(f"the hash of the block at offset {block.base_offset} is not that of its content.")
            previous = header.hash
            yield Stored(block.batch, block.id)


# --- a node -------------------------------------------------------------------------------------------------------


def _from_node(location: Location, piece: Range, *, verify: bool) -> Iterator[Stored]:
    assert location.node is not None
    line = NodeLine(location.node)
    try:
        yield from _Fetch(line, location, piece, verify=verify).blocks()
    finally:
        line.close()


class _Fetch:
    """One piece over one line. The next request is under way while the answer before it is being worked on."""

    def __init__(self, line: NodeLine, location: Location, piece: Range, *, verify: bool) -> None:
        self._line = line
        self._stream = location.stream
        self._piece = piece
        self._verify = verify
        self._sent: tuple[DirectConnection, int, int] | None = None
        self._previous = b""

    def blocks(self) -> Iterator[Stored]:
        offset = self._piece.start
        while offset < self._piece.end:
            answer = self._line.persist(partial(self._receive, offset=offset))
            told = _decode_blocks(answer.header)
            if told.next_offset <= offset:
                raise OffsetOutOfRange(offset, told.start_offset, told.end_offset)
            if told.next_offset < self._piece.end:
                self._send_ahead(told.next_offset)
            yield from self._checked(answer, told)
            offset = told.next_offset

    def _receive(self, connection: DirectConnection, *, offset: int) -> Frame:
        if self._sent is None or self._sent[0] is not connection or self._sent[1] != offset:
            self._sent = (connection, offset, self._send(connection, offset))
        number, self._sent = self._sent[2], None
        return connection.receive(number)

    def _send(self, connection: DirectConnection, offset: int) -> int:
        partition, _, end = self._piece
        request = ReadRecords(
            *self._stream, partition=partition, offset=offset, limit=min(end - offset, 1_000_000), bytes_max=FETCH_BYTES
        )
        return connection.send("stream.read", request)

    def _send_ahead(self, offset: int) -> None:
        # Only ahead: a node that is away is waited for when its answer is needed.
        with suppress(*TRANSIENT):
            connection = self._line.connection()
            self._sent = (connection, offset, self._send(connection, offset))

    def _checked(self, answer: Frame, told: BlocksRead) -> Iterator[Stored]:
        segments = dict(told.segments)
        segment = ""
        for entry in entries(answer.body):
            header = batches.decode_header(entry, blocks.PREFIX_SIZE)
            before, own = bytes(entry[PREVIOUS_HASH]), bytes(entry[HASH])
            begins_segment = header.base_offset in segments
            segment = segments.get(header.base_offset, segment)
            if self._previous and before != self._previous and not begins_segment:
                raise CorruptData(f"the block at offset {header.base_offset} does not follow the one before it.")
            if self._verify:
                data = entry[blocks.PREFIX_SIZE : -blocks.CRC.size]
                if not blocks.hash_is_right(blocks.decode_prefix(entry), data):
                    raise CorruptData(f"the hash of the block at offset {header.base_offset} is not its content's.")
            self._previous = own
            yield Stored(Batch(header, entry[_BODY : -blocks.CRC.size]), f"{segment}.{own.hex()}" if segment else "")
