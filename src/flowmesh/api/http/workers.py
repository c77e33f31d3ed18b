"""A few threads for what would keep the loop from everybody else: decoding large bodies, rendering large answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from flowmesh.api.http.bounds import WORKERS

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    def __init__(self, count: int = WORKERS) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="flowmesh-http")

    async def run(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        assert not options, "a pool takes positional arguments"
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
