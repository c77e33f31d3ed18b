"""Whoever asks over a connection, as those who answer it see them: what it may, and the way back to it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeAlias

from flowmesh.api.admission import Principal
from flowmesh.api.frames.context import WireContext
from flowmesh.api.frames.cursors import Cursors

Work: TypeAlias = Coroutine[Any, Any, None]


class Caller(Protocol):
    context: WireContext
    peer: str
    principal: Principal | None
    """As it is now: a later hello may have brought another one."""
    writable: asyncio.Event
    """Not set while the peer does not read what it was sent."""
    reading: asyncio.Semaphore
    """Bounds how many reads hold their data at once."""
    cursors: Cursors

    def spawn(self, work: Work) -> asyncio.Task[None]:
        """Runs it beside everything else, until it is done or the connection is over."""
        ...

    def send_soon(self, data: bytes) -> None: ...

    def send_pieces(self, pieces: list[bytes | memoryview]) -> None: ...
