"""A whole node on a loop in a thread of the test, so that a test may shorten its deadlines and look inside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import uvloop

from flowmesh.host.settings import Settings
from flowmesh.serve import RunningNode

T = TypeVar("T")


class NodeThread:
    def __init__(self, data_dir: Path, **settings: str | int | float) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        options = {"http_port": 0, "frames_port": 0, "drain_timeout_s": 3.0, **settings}
        self.running = RunningNode(Settings(data_dir=str(data_dir), **options))  # type: ignore[arg-type]
        self._wait(self.running.start())
        self.token = self.running.token_file.read_text().strip()

    @property
    def port(self) -> int:
        return self.running.frames.port

    @property
    def url(self) -> str:
        return f"flowmesh://127.0.0.1:{self.port}"

    def on_loop(self, function: Callable[[], T]) -> T:
        async def call() -> T:
            return function()

        return self._wait(call())

    def _wait(self, work: object) -> T:  # type: ignore[type-var]
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)  # type: ignore[arg-type]

    def stop(self) -> None:
        self._wait(self.running.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()


@contextmanager
def node_thread(data_dir: Path, **settings: str | int | float) -> Iterator[NodeThread]:
    node = NodeThread(data_dir, **settings)
    try:
        yield node
    finally:
        node.stop()
