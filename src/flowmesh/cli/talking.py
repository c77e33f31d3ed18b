"""A client of the node that a command means, on a loop in the background, closed when the command is over."""

from __future__ import annotations

import socket
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from flowmesh.base.errors import Unavailable
from flowmesh.cli import targets
from flowmesh.cli.connection_options import Asked
from flowmesh.cli.contexts import NodeContext
from flowmesh.cli.targets import StreamPath
from flowmesh.client import Client, StreamHandle, connect
from flowmesh.client.address import parse_address
from flowmesh.client.blocking import BackgroundLoop

T = TypeVar("T")
TIMEOUT_S = 10.0


class Conversation:
    def __init__(self, loop: BackgroundLoop, client: Client, context: NodeContext) -> None:
        self.client = client
        self.context = context
        self._loop = loop

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it to its end; Ctrl-C here ends it there."""
        return self._loop.run(work)

    def path(self, name: str) -> StreamPath:
        return targets.path_of(self.context, name)

    def stream(self, name: str) -> StreamHandle:
        tenant, namespace, bare = self.path(name)
        return self.client.stream(bare, namespace=namespace, tenant=tenant)


@contextmanager
def talking(asked: Asked, timeout_s: float = TIMEOUT_S) -> Iterator[Conversation]:
    with talking_to(targets.find(asked), timeout_s) as conversation:
        yield conversation


@contextmanager
def talking_to(context: NodeContext, timeout_s: float = TIMEOUT_S) -> Iterator[Conversation]:
    async def begin() -> Client:
        return await connect(context.url, token=context.token, ca_file=context.ca_file, timeout_s=timeout_s)

    _require_listener(context)
    loop = BackgroundLoop()
    try:
        client = loop.run(begin())
        try:
            yield Conversation(loop, client, context)
        finally:
            loop.run(client.close())
    finally:
        loop.close()


def _require_listener(context: NodeContext) -> None:
    """Says at once that nobody is there. The client would try again for a while, which is right only for programs."""
    address = parse_address(context.url, context.ca_file if context.url.startswith("flowmeshs") else None)
    try:
        socket.create_connection((address.host, address.port), TIMEOUT_S).close()
    except OSError as error:
        raise Unavailable(
            f"no node answers at {address}: {error.strerror or error}.",
            hint="Start one with 'flowmesh serve', or name another with --url or --context.",
        )
