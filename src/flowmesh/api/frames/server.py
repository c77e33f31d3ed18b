"""The server of the frames wire: listens, keeps watch over its connections, and sends them home when the node stops."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial

from flowmesh.api.admission import Admission
from flowmesh.api.frames.connection import FrameConnection
from flowmesh.api.frames.context import Watched, WireContext
from flowmesh.api.observer import Observer
from flowmesh.api.room import ConnectionRoom
from flowmesh.api.service import Service
from flowmesh.base.errors import FlowMeshError, TimedOut
from flowmesh.host.descriptors import descriptor_limit

_WATCH_S = 1.0
_BACKLOG = 1024


class FrameServer:
    def __init__(
        self, service: Service, admission: Admission, observer: Observer, room: ConnectionRoom | None = None
    ) -> None:
        self.context = WireContext(service, admission, observer, room or ConnectionRoom(descriptor_limit()))
        self.port = 0
        """The real one, once it listens."""
        self._server: asyncio.Server
        self._watch: asyncio.Task[None]

    async def start(self, host: str, port: int, ssl_context: ssl.SSLContext | None = None) -> None:
        loop = asyncio.get_running_loop()
        handshake_s = self.context.hello_ms / 1000 if ssl_context else None
        self._server = await loop.create_server(
            partial(FrameConnection, self.context),
            host,
            port,
            ssl=ssl_context,
            backlog=self.context.room.backlog(_BACKLOG),
            ssl_handshake_timeout=handshake_s,
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self._watch = asyncio.create_task(self._keep_watch())

    async def stop(self, drain_timeout_s: float) -> None:
        """No new connections; what is under way is answered, as long as that takes no longer than it may."""
        self._server.close()
        self._watch.cancel()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + drain_timeout_s
        while self.context.connections and loop.time() < deadline:
            for connection in list(self.context.connections):
                if not connection.in_flight:
                    connection.say_goodbye()
            await asyncio.sleep(0.01)
        for connection in list(self.context.connections):
            connection.abort()

    # --- deadlines ----------------------------------------------------------------------------------------------

    async def _keep_watch(self) -> None:
        """One walk over all connections now and then is cheaper than a timer for each deadline of each."""
        while True:
            await asyncio.sleep(_WATCH_S)
            now = asyncio.get_running_loop().time()
            for connection in list(self.context.connections):
                if not connection.ended:
                    self._look_at(connection, now)

    def _look_at(self, connection: Watched, now: float) -> None:
        context, late = self.context, None
        if connection.principal is None:
            if now - connection.opened_at > context.hello_ms / 1000:
                late = "no hello came"
        elif (
            connection.unfinished_since is not None and now - connection.unfinished_since > context.unfinished_ms / 1000
        ):
            late = "a frame did not come to its end"
        elif now - connection.heard_at > context.idle_ms / 1000:
            late = "nothing was heard"
        try:
            if late is not None:
                raise TimedOut(f"{late} in time.", hint="Connect again. A client that has nothing to say pings.")
            if connection.principal is not None:
                connection.principal = context.admission.still_good(connection.principal)
        except FlowMeshError as error:
            connection.end(error)
