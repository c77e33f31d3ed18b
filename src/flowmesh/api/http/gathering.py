"""Single records that arrive in the same turn of the loop, handed to the writer together.

Each request still has its own place and its own answer; only the way to the writer's thread is shared, because going
there costs more than all else that is done for a small record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from flowmesh.api.service import AppendResult, Service
from flowmesh.base.errors import FlowMeshError
from flowmesh.node.partition import StreamPartition
from flowmesh.streams.machine import AppendRecord

_Waiting = tuple[list[AppendRecord], "list[asyncio.Future[AppendResult]]"]


class Gathering:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._waiting: dict[StreamPartition, _Waiting] = {}

    def append(self, partition: StreamPartition, record: AppendRecord) -> asyncio.Future[AppendResult]:
        """Where the record went, or why it did not; raised only when nothing could be tried at all."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[AppendResult] = loop.create_future()
        waiting = self._waiting.get(partition)
        if waiting is None:
            waiting = self._waiting[partition] = ([], [])
            if len(self._waiting) == 1:
                loop.call_soon(self._submit)
        waiting[0].append(record)
        waiting[1].append(future)
        return future

    def _submit(self) -> None:
        gathered, self._waiting = self._waiting, {}
        for partition, (records, futures) in gathered.items():
            try:
                self._service.submit(partition, records, partial(_answer, futures))
            except FlowMeshError as error:
                for future in futures:
                    if not future.done():
                        future.set_exception(error)


def _answer(futures: Sequence[asyncio.Future[AppendResult]], results: Sequence[AppendResult]) -> None:
    for future, result in zip(futures, results, strict=True):
        if not future.done():  # its client may have gone meanwhile
            future.set_result(result)
