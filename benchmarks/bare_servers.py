"""Servers that do nothing but answer, as a process: what frames and HTTP cost before a node does anything."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import cast

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_ANSWER = b'{"appends":[{"partition":0,"base_offset":0,"end_offset":1,"repeated":false}],"durability":"batch"}'


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


async def _echo() -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _nothing(_request: Request) -> Response:
    return Response(_ANSWER, media_type="application/json")


def _starlette() -> None:
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(listening.getsockname()[1], flush=True)
    route = Route("/v1/{tenant}/{namespace}/streams/{name}/records", _nothing, methods=["POST"])
    config = uvicorn.Config(
        Starlette(routes=[route]),
        http="httptools",
        loop="uvloop",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="error",
    )
    uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    if sys.argv[1] == "echo":
        uvloop.run(_echo())
    else:
        _starlette()
