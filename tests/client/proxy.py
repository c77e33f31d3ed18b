"""A proxy between client and node that cuts connections when it is told to, or after so many bytes."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class CuttingProxy:
    """Passes bytes on both ways. `cut_after` bytes towards the node the connection breaks, then it is twice as many."""

    def __init__(self, target_port: int, cut_after: int | None = None) -> None:
        self.cuts = 0
        self.port = 0
        self.refusing = False
        self._target_port = target_port
        self._cut_after = cut_after
        self._server: asyncio.Server
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"flowmesh://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Breaks every connection, with whatever is under way in it."""
        self.cuts += 1
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        self._writers |= {writer, onward_writer}
        ways = [self._pass_on(reader, onward_writer, self._cut_after), self._pass_on(onward_reader, writer, None)]
        tasks = [asyncio.create_task(way) for way in ways]
        self._tasks.update(tasks)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in (writer, onward_writer):
            each.transport.abort()
            self._writers.discard(each)
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.difference_update(tasks)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None) -> None:
        while data := await reader.read(65_536):
            if left is not None:
                left -= len(data)
                if left < 0:
                    self._cut_after = 2 * (self._cut_after or 1)
                    self.cut()
                    return
            writer.write(data)
            await writer.drain()
