"""Records as server-sent events: a stream that goes on until the client leaves, the node stops, or something is wrong.

A client that comes back says which event it saw last, and goes on after it. A client that does not read costs one
piece and its socket's buffers; the connection drops it after a while, and the log is where it finds what it missed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

from flowmesh.api.admission import Admission, Principal
from flowmesh.api.http.bounds import HEARTBEAT_S, PIECE_BYTES, PIECE_RECORDS
from flowmesh.api.http.exchange import Exchange
from flowmesh.api.http.media import EVENTS, negotiated
from flowmesh.api.http.problems import problem_of
from flowmesh.api.http.reading import Reader
from flowmesh.api.http.record_views import RecordPlace
from flowmesh.api.http.selection import pieces
from flowmesh.api.http.workers import Workers
from flowmesh.api.service import Service
from flowmesh.base import times
from flowmesh.base.errors import BadRequest, FlowMeshError, NotFound, Unavailable
from flowmesh.base.limits import READ_RECORDS_MAX, SUBSCRIPTION_WINDOW_MAX
from flowmesh.catalog.model import StreamKey
from flowmesh.node.partition import StreamPartition
from flowmesh.node.streams import OpenStream
from flowmesh.operations.messages import ReadRecords, Subscribe

_RETRY = b"retry: 1000\n\n"
_HEARTBEAT = b": nothing new\n\n"
_encode = msgspec.json.Encoder().encode


class _Following(NamedTuple):
    principal: Principal
    key: StreamKey
    opened: OpenStream
    partition: StreamPartition
    place: RecordPlace
    piece_records: int
    limit: int | None


class Follower:
    def __init__(
        self, service: Service, admission: Admission, workers: Workers, heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        self._service = service
        self._admission = admission
        self._workers = workers
        self._reader = Reader(service, workers)
        self._heartbeat_ms = int(heartbeat_s * 1000)

    def is_wanted(self, exchange: Exchange) -> bool:
        return negotiated(exchange.headers.get(b"accept")) == EVENTS

    async def follow_read(self, exchange: Exchange, principal: Principal, request: ReadRecords) -> None:
        """A read that goes on: from the beginning where it does not say otherwise, and to `limit` where it says so."""
        for name in ("bytes_max", "wait_ms"):
            if getattr(request, name):
                raise BadRequest(f"{name!r} means nothing when events are followed.", field=name)
        if request.limit is not None and not 1 <= request.limit <= READ_RECORDS_MAX:
            raise BadRequest(f"limit is {request.limit}; it goes from 1 to {READ_RECORDS_MAX}.", field="limit")
        await self._follow(exchange, principal, request, "earliest", PIECE_RECORDS, request.limit)

    async def follow(self, exchange: Exchange, principal: Principal, request: Subscribe) -> None:
        """From now on where the request does not say otherwise."""
        if not 1 <= request.window <= SUBSCRIPTION_WINDOW_MAX:
            raise BadRequest(
                f"window is {request.window}; it goes from 1 to {SUBSCRIPTION_WINDOW_MAX}.", field="window"
            )
        await self._follow(exchange, principal, request, "latest", min(request.window, PIECE_RECORDS), None)

    async def _follow(
        self,
        exchange: Exchange,
        principal: Principal,
        request: ReadRecords | Subscribe,
        default: str,
        piece_records: int,
        limit: int | None,
    ) -> None:
        key = (request.tenant, request.namespace, request.name)
        opened = self._service.node.stream(key)
        partition = opened.partition(request.partition)
        offset = _resumed(exchange)
        if offset is None:
            time_ns = None if request.time is None else times.from_text(request.time)
            offset = await self._service.find_offset(partition, request.offset, time_ns, request.at, default)
        await self._service.read(partition, offset, 1)  # what is wrong with the place is said before events begin
        place = RecordPlace("/".join(key), request.partition)
        following = _Following(principal, key, opened, partition, place, piece_records, limit)
        await exchange.stream(EVENTS, [], self._events(following, offset))

    async def _events(self, following: _Following, offset: int) -> AsyncIterator[bytes]:
        yield _RETRY
        try:
            async for data in self._pushed(following, offset):
                yield data
        except FlowMeshError as error:
            yield b"event: problem\ndata: %b\n\n" % _encode(problem_of(error))

    async def _pushed(self, following: _Following, offset: int) -> AsyncIterator[bytes]:
        left = following.limit
        while left is None or left > 0:
            self._require_still_there(following)
            chunk = await self._service.read(following.partition, offset, PIECE_BYTES)
            if not chunk.blocks and not await self._service.wait_for_more(
                following.partition, offset, self._heartbeat_ms
            ):
                yield _HEARTBEAT
            for block in chunk.blocks:
                decoded = await self._reader.decoded(block)
                for piece in pieces(block, decoded, offset, following.piece_records, PIECE_BYTES):
                    if left is not None:
                        piece = piece._replace(end=min(piece.end, piece.begin + left))
                        left -= piece.end - piece.begin
                    yield await self._workers.run(following.place.events, piece)
                    offset = piece.next_offset
                    if left == 0:
                        return

    def _require_still_there(self, following: _Following) -> None:
        """Between two looks at the log the token may have ended, the stream may be gone, the node may be stopping."""
        self._admission.still_good(following.principal)
        if self._service.draining:
            raise Unavailable("this node is stopping.", hint="Come back in a moment with the last event's id.")
        if self._service.node.streams.get(following.key) is not following.opened:
            raise NotFound(f"there is no stream {'/'.join(following.key)!r} any more.", field="name")


def _resumed(exchange: Exchange) -> int | None:
    """After the last event that the client saw. This wins over the query, which a browser repeats unchanged."""
    last = exchange.headers.get(b"last-event-id")
    if not last:
        return None
    if not last.isdigit() or len(last) > 19:
        raise BadRequest("Last-Event-ID is no offset.", field="last-event-id", hint="Send back the id of an event.")
    return int(last) + 1
