"""GET …/records: one JSON page, or a stream of NDJSON or Arrow that is never held in memory as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from flowmesh.api.http.bounds import INLINE_BYTES_MAX, PAGE_BYTES_MAX, PAGE_RECORDS_MAX, PIECE_BYTES, PIECE_RECORDS
from flowmesh.api.http.exchange import JSON, Exchange
from flowmesh.api.http.media import NDJSON, negotiated
from flowmesh.api.http.problems import Headers, NotAcceptable
from flowmesh.api.http.record_views import RecordPlace
from flowmesh.api.http.selection import Selection, pieces, select
from flowmesh.api.http.workers import Workers
from flowmesh.api.service import Service
from flowmesh.base import times
from flowmesh.base.errors import BadRequest, FlowMeshError
from flowmesh.base.limits import READ_BYTES_DEFAULT, READ_BYTES_MAX, READ_RECORDS_MAX, READ_WAIT_MS_MAX
from flowmesh.format import columns
from flowmesh.format.batch import Codec
from flowmesh.format.columns import Columns
from flowmesh.log.scan import Block
from flowmesh.log.view import Chunk
from flowmesh.node.partition import StreamPartition
from flowmesh.operations.messages import ReadRecords


class Extent(NamedTuple):
    """How much a read may give."""

    records_max: int
    bytes_max: int


class Reader:
    def __init__(self, service: Service, workers: Workers) -> None:
        self._service = service
        self._workers = workers

    async def read(self, exchange: Exchange, request: ReadRecords) -> None:
        """For a request that was let through."""
        form = negotiated(exchange.headers.get(b"accept"))
        path = (request.tenant, request.namespace, request.name)
        partition = self._service.node.stream(path).partition(request.partition)
        extent = _extent(request, form)
        _require("wait_ms", request.wait_ms, 0, READ_WAIT_MS_MAX)
        time_ns = None if request.time is None else times.from_text(request.time)
        offset = await self._service.find_offset(partition, request.offset, time_ns, request.at, "earliest")
        chunk = await self._first(exchange, partition, offset, extent.bytes_max, request.wait_ms)
        place = RecordPlace("/".join(path), request.partition)
        if form == JSON:
            await self._page(exchange, partition, chunk, offset, extent, place)
            return
        found = self.selections(partition, chunk, offset, partition.view.end_offset, extent)
        if form == NDJSON:
            body = self._lines(found, place)
        else:
            body = self._arrow(found)
        view = partition.view
        bounds = {"offset": offset, "start-offset": view.start_offset, "end-offset": view.end_offset}
        headers: Headers = [(b"flowmesh-" + name.encode(), b"%d" % value) for name, value in bounds.items()]
        await exchange.stream(form, headers, body)

    async def _first(
        self, exchange: Exchange, partition: StreamPartition, offset: int, bytes_max: int, wait_ms: int
    ) -> Chunk:
        """The first blocks, so that what is wrong with the request is known before an answer begins."""
        bytes_max = min(bytes_max, READ_BYTES_DEFAULT)
        if not wait_ms or partition.view.end_offset > offset:
            return await self._service.read(partition, offset, bytes_max)
        return await exchange.unless_gone(self._service.read(partition, offset, bytes_max, wait_ms=wait_ms))

    async def _page(
        self,
        exchange: Exchange,
        partition: StreamPartition,
        chunk: Chunk,
        offset: int,
        extent: Extent,
        place: RecordPlace,
    ) -> None:
        blocks, size = list(chunk.blocks), sum(len(block.entry) for block in chunk.blocks)
        while blocks and size < extent.bytes_max and _counted(blocks, offset) < extent.records_max:
            if chunk.next_offset >= partition.view.end_offset:
                break
            try:
                chunk = await self._service.read(partition, chunk.next_offset, extent.bytes_max - size, chunk.cursor)
            except FlowMeshError:
                break  # what was read is sound, and whoever reads on from there is told what is wrong
            blocks += chunk.blocks
            size += sum(len(block.entry) for block in chunk.blocks)
        view = partition.view

        def page() -> bytes:
            found = select(blocks, offset, *extent)
            next_offset = found[-1].next_offset if found else offset
            return place.page(found, next_offset, view.start_offset, view.end_offset)

        body = page() if size <= INLINE_BYTES_MAX else await self._workers.run(page)
        await exchange.respond(200, _PAGE_HEADERS, body)

    # --- streams ------------------------------------------------------------------------------------------------

    async def selections(
        self, partition: StreamPartition, chunk: Chunk, offset: int, end_offset: int, extent: Extent
    ) -> AsyncIterator[Selection]:
        """Everything in `[offset, end_offset)` that the extent allows, piece by piece."""
        records_left, bytes_left = extent
        while True:
            for block in chunk.blocks:
                decoded = await self.decoded(block)
                for piece in pieces(block, decoded, offset, PIECE_RECORDS, PIECE_BYTES):
                    kept = min(piece.end, piece.begin + records_left, end_offset - block.base_offset)
                    if kept <= piece.begin or bytes_left <= 0:
                        return
                    yield piece._replace(end=kept)
                    offset = block.base_offset + kept
                    records_left -= kept - piece.begin
                    bytes_left -= piece.size_bytes
            if offset >= end_offset or not chunk.blocks:
                return
            chunk = await self._service.read(partition, offset, READ_BYTES_DEFAULT, chunk.cursor)

    async def decoded(self, block: Block) -> Columns:
        if block.batch_header.codec == Codec.NONE or block.batch_header.body_bytes <= INLINE_BYTES_MAX:
            return columns.decode(block.batch)
        return await self._workers.run(columns.decode, block.batch)

    async def _lines(self, found: AsyncIterator[Selection], place: RecordPlace) -> AsyncIterator[bytes]:
        async for selection in found:
            yield await self._workers.run(place.lines, selection)

    def _arrow(self, found: AsyncIterator[Selection]) -> AsyncIterator[bytes]:
        try:
            from flowmesh.api.http import arrow_bodies
        except ImportError:
            raise NotAcceptable(
                "this node cannot write Arrow: pyarrow is not installed.",
                field="accept",
                hint="Install 'flowmesh[arrow]' on the node, or ask for NDJSON.",
            )
        return arrow_bodies.stream(found)


_PAGE_HEADERS: Headers = [
    (b"content-type", JSON),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
]


def _counted(blocks: list[Block], offset: int) -> int:
    return blocks[-1].end_offset - max(offset, blocks[0].base_offset)


def _extent(request: ReadRecords, form: bytes) -> Extent:
    """What was asked for, within what the form of the answer can bear."""
    if request.limit is not None:
        _require("limit", request.limit, 1, READ_RECORDS_MAX)
    if request.bytes_max is not None:
        _require("bytes_max", request.bytes_max, 1, READ_BYTES_MAX)
    default = READ_BYTES_DEFAULT if request.limit is None else READ_BYTES_MAX
    records_max, bytes_max = request.limit or READ_RECORDS_MAX, request.bytes_max or default
    if form == JSON:
        return Extent(min(records_max, PAGE_RECORDS_MAX), min(bytes_max, PAGE_BYTES_MAX))
    return Extent(records_max, bytes_max)


def _require(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise BadRequest(f"{name} is {value}; it goes from {least} to {most}.", field=name)
