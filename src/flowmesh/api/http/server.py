"""The HTTP server: listens, keeps the date, and stops without cutting anybody off in mid-answer."""

from __future__ import annotations

import asyncio
import ssl
import time
from email.utils import formatdate

from uvicorn.config import Config
from uvicorn.server import ServerState

from flowmesh.api.admission import Admission
from flowmesh.api.http.application import Application
from flowmesh.api.http.bounds import DATE_INTERVAL_S, IDLE_TIMEOUT_S
from flowmesh.api.http.connection import HttpConnection
from flowmesh.api.observer import Observer
from flowmesh.api.room import ConnectionRoom
from flowmesh.api.service import Service
from flowmesh.base.limits import CONNECTIONS_MAX
from flowmesh.host.descriptors import descriptor_limit

BACKLOG = 2_048


class HttpServer:
    """Start it on a running loop. Signals, threads and the node belong to whoever made it."""

    def __init__(
        self, service: Service, admission: Admission, observer: Observer, room: ConnectionRoom | None = None
    ) -> None:
        self.port = 0
        self._observer = observer
        self._connections_max = CONNECTIONS_MAX
        self._room = room or ConnectionRoom(descriptor_limit())
        self._application = Application(service, admission, observer)
        self._state = ServerState()
        self._config = Config(
            self._application,
            interface="asgi3",
            http=HttpConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=IDLE_TIMEOUT_S,
        )
        self._config.load()

    async def start(self, host: str, port: int, ssl_context: ssl.SSLContext | None = None) -> None:
        loop = asyncio.get_running_loop()
        self._keep_date(loop)
        self._listening = await loop.create_server(
            self._connection, host, port, ssl=ssl_context, backlog=self._room.backlog(BACKLOG)
        )
        self.port = self._listening.sockets[0].getsockname()[1]

    def _connection(self) -> HttpConnection:
        return HttpConnection(self._config, self._state, self._observer, self._room, self._connections_max)

    def _keep_date(self, loop: asyncio.AbstractEventLoop) -> None:
        self._state.default_headers = [(b"date", formatdate(time.time(), usegmt=True).encode())]
        self._dating = loop.call_later(DATE_INTERVAL_S, self._keep_date, loop)

    async def stop(self, drain_timeout_s: float) -> None:
        """Takes no more connections, lets answers finish, and closes what is left when the time is up."""
        self._dating.cancel()
        self._listening.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        tasks = set(self._state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=drain_timeout_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        for connection in list(self._state.connections):
            connection.transport.abort() if tasks else connection.transport.close()
        self._application.close()
