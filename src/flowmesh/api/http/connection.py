"""One HTTP connection: uvicorn's, with the bounds that it lacks. Slow, silent and endless clients end here."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from flowmesh.api.http import problems
from flowmesh.api.http.bounds import (
    BODY_WINDOW_BYTES_MIN,
    BODY_WINDOW_S,
    DISCARDED_BYTES_MAX,
    HEAD_BYTES_MAX,
    HEAD_TIMEOUT_S,
    STALL_TIMEOUT_S,
)
from flowmesh.api.http.problems import BodyTooSlow, HeadTooLarge
from flowmesh.api.observer import Observer
from flowmesh.api.room import ConnectionRoom
from flowmesh.base.errors import BadRequest, FlowMeshError, Unavailable


class _LingeringTransport:
    """The way out for the last answer of a connection. Closing with bytes unread would take it from the client, which
    may send all of a body before it listens: the connection ends once the body is there, all of it thrown away."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection
        self.write = connection.transport.write

    def close(self) -> None:
        self._connection.close_after_body()


class HttpConnection(HttpToolsProtocol):
    """At most one timer runs for what the client has to send, and one for what it has to read."""

    def __init__(
        self, config: Config, state: ServerState, observer: Observer, room: ConnectionRoom, connections_max: int
    ) -> None:
        super().__init__(config, state, {})
        self._observer = observer
        self._room = room
        self._connections_max = connections_max
        self._in_head = False
        self._heads = 0
        self._head_bytes = 0
        self._unfinished_bytes = 0
        self._body_bytes = 0
        self._discarded_bytes = 0
        self._is_last = False
        """The last answer was given; only its body is still coming in."""
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    # --- coming and going ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop has its own
        super().connection_made(transport)
        self._observer.connections("http", 1)
        has_room = self._room.enter()
        if self._room.is_crowded:
            transport.abort()
            return
        if not has_room or len(self.connections) > self._connections_max:
            self._end(Unavailable("this node holds as many connections as it may.", hint="Try again later."))
            return
        self._deadline = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._observer.connections("http", -1)
        self._room.leave()
        self._disarm()
        if self._stalled is not None:
            self._stalled.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    # --- what comes in ------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        heads = self._heads
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle
        if self._in_head or cycle is None:
            self._await_head(0 if self._heads != heads else len(data))
        elif cycle.more_body:
            if cycle.response_complete:
                self._discard(len(data))
            elif self._deadline is None:
                self._body_bytes = len(data)
                self._deadline = self.loop.call_later(BODY_WINDOW_S, self._body_is_late, 0)
            else:
                self._body_bytes += len(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._heads += 1
        self._head_bytes = self._unfinished_bytes = self._discarded_bytes = 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._disarm()
        self._head_bytes = len(self.url) + sum(map(len, chain.from_iterable(self.headers)))
        if self._head_bytes > HEAD_BYTES_MAX:
            raise _TooMuch  # makes the parser stop; what is said then is `send_400_response`
        super().on_headers_complete()
        if not self.cycle.keep_alive:
            self.cycle.transport = cast("asyncio.Transport", _LingeringTransport(self))

    def on_message_complete(self) -> None:
        self._disarm()
        super().on_message_complete()
        if self._is_last:
            self.transport.close()

    def close_after_body(self) -> None:
        if self.cycle.more_body:
            self._is_last = True
            self._allow_for_discarding()
        else:
            self.transport.close()

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _await_head(self, size: int) -> None:
        """Counts what is part of this head beyond doubt; the piece that it began in may hold other things."""
        self._unfinished_bytes += size
        if self._unfinished_bytes > HEAD_BYTES_MAX:
            self._end(_head_too_large())
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)

    def _head_is_late(self) -> None:
        if not self._in_head:  # it never began to speak
            self.transport.close()
        else:
            self._end(BodyTooSlow(f"the header lines took over {HEAD_TIMEOUT_S:.0f} s."))

    def _body_is_late(self, bytes_before: int) -> None:
        self._deadline = None
        cycle = self.cycle
        if not cycle.more_body:
            return
        if cycle.response_complete:
            self.transport.abort()  # it has its answer
            return
        grown = self._body_bytes - bytes_before
        if grown < BODY_WINDOW_BYTES_MIN and not self.flow.read_paused:
            self._end(BodyTooSlow(f"the body grew by {grown} bytes in {BODY_WINDOW_S:.0f} s.", field="body"))
        else:
            self._deadline = self.loop.call_later(BODY_WINDOW_S, self._body_is_late, self._body_bytes)

    def _discard(self, size: int) -> None:
        self._discarded_bytes += size
        if self._discarded_bytes > DISCARDED_BYTES_MAX:
            self.transport.abort()
        else:
            self._allow_for_discarding()

    def _allow_for_discarding(self) -> None:
        """What is not wanted any more may take one window, however fast it comes."""
        if self._deadline is None:
            self._deadline = self.loop.call_later(BODY_WINDOW_S, self._body_is_late, 0)

    def send_400_response(self, msg: str) -> None:
        """The parser gave up; its own words are for logs."""
        del msg
        too_large = max(self._head_bytes, self._unfinished_bytes) > HEAD_BYTES_MAX
        self._end(_head_too_large() if too_large else BadRequest("this is not HTTP/1.1 as it is written."))

    def _end(self, error: FlowMeshError) -> None:
        """The last answer on this connection, given without the application; whoever reads the body is told."""
        self._disarm()
        if self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle
        answering = cycle is not None and cycle.response_started and not cycle.response_complete
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        if not answering:
            status, headers, body = problems.rendered(error)
            fields: list[Any] = [*self.server_state.default_headers, *headers, (b"connection", b"close")]
            head = b"".join(b"%b: %b\r\n" % field for field in fields)
            self.transport.write(b"".join((STATUS_LINE[status], head, b"\r\n", body)))
        self.transport.close()

    # --- what goes out ------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(STALL_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


class _Overlong(Exception):
    """Stops the parser."""


_TooMuch = _Overlong()


def _head_too_large() -> HeadTooLarge:
    return HeadTooLarge(f"request line and headers are over the limit of {HEAD_BYTES_MAX} bytes.", field="headers")
