"""One request and its answer on the ASGI interface: headers, body and replies, and nothing about any operation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import msgspec
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from flowmesh.api.http import problems
from flowmesh.api.http.problems import Headers
from flowmesh.base.errors import FlowMeshError

T = TypeVar("T")
_ACKNOWLEDGED = b"HTTP/1.1 200 OK\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
JSON = b"application/json"
_encode = msgspec.json.Encoder().encode
_JSON_TYPE = (b"content-type", JSON)
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_NO_STORE = (b"cache-control", b"no-store")


class ClientGone(Exception):
    """The client closed its side before it had its answer."""


def written_at_once(send: Send, body: bytes) -> bool:
    """The same answer in one write, without what uvicorn does for answers that it knows nothing of. Only where that is
    certain to be the same: on a cycle of uvicorn's that has not begun, is kept alive, and whose client reads."""
    cycle = getattr(send, "__self__", None)
    if type(cycle) is not RequestResponseCycle or cycle.response_started or not cycle.keep_alive:
        return False
    if cycle.disconnected or cycle.flow.write_paused or cycle.more_body:
        return False
    cycle.response_started = cycle.response_complete = True
    fixed = b"".join([b"%b: %b\r\n" % header for header in cycle.default_headers])
    cycle.transport.write(_ACKNOWLEDGED % (fixed, len(body), body))
    cycle.message_event.set()
    cycle.on_response()
    return True


class Exchange:
    __slots__ = ("headers", "receive", "scope", "send", "started")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.started = False
        """Whether an answer has begun: from then on no other one can be given."""

    @property
    def method(self) -> str:
        method: str = self.scope["method"]
        return method

    @property
    def query(self) -> bytes:
        query: bytes = self.scope["query_string"]
        return query

    @property
    def peer(self) -> str:
        """The address that the connection comes from. Headers that claim another one are not believed."""
        client = self.scope["client"]
        return client[0] if client else "local"

    # --- answers ------------------------------------------------------------------------------------------------

    async def acknowledge(self, body: bytes) -> None:
        """The shortest answer there is, for the path that is walked most."""
        self.started = True
        if written_at_once(self.send, body):
            return
        headers = [_JSON_TYPE, (b"content-length", b"%d" % len(body))]
        await self.send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def reply(self, reply: Any, status: int = 200) -> None:
        if status == 204:
            await self.respond(status, [_NO_STORE], b"")
        else:
            await self.respond(status, [_JSON_TYPE, _NO_SNIFFING, _NO_STORE], _encode(reply))

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        self.started = True
        lengths = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, *lengths]})
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, error: FlowMeshError) -> None:
        status, headers, body = problems.rendered(error)
        self.started = True
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def stream(self, media_type: bytes, headers: Headers, pieces: AsyncIterator[bytes]) -> None:
        """Piece by piece, no faster than the client reads. If it fails half-way the end is missing, and can be seen
        to be missing: the answer is chunked, and its last chunk never comes."""
        self.started = True
        fixed = [(b"content-type", media_type), _NO_SNIFFING, _NO_STORE]
        await self.send({"type": "http.response.start", "status": 200, "headers": [*fixed, *headers]})
        await self.unless_gone(self._send_all(pieces))

    async def _send_all(self, pieces: AsyncIterator[bytes]) -> None:
        async for piece in pieces:
            await self.send({"type": "http.response.body", "body": piece, "more_body": True})
        await self.send({"type": "http.response.body", "body": b""})

    # --- waiting ------------------------------------------------------------------------------------------------

    async def unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """Does the work, or gives it up when the client goes away."""
        working = asyncio.ensure_future(work)
        going = asyncio.ensure_future(self._gone())
        try:
            await asyncio.wait((working, going), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise ClientGone
        finally:
            going.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait((working,))

    async def _gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
