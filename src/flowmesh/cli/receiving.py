"""The work of `stream read` and `tail`: batches from a consumer, cut to what was asked for, and shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import BinaryIO

from flowmesh.base.times import to_text
from flowmesh.cli.parameters import Start
from flowmesh.cli.showing import show
from flowmesh.cli.talking import Conversation
from flowmesh.client import ReceivedBatch, StreamConsumer


def receive(
    node: Conversation,
    name: str,
    out: BinaryIO,
    start: Start,
    *,
    partitions: Sequence[int] | None,
    limit: int | None,
    follow: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    if limit == 0:
        return
    consumer = node.stream(name).consumer(_place(start), partitions=partitions, until_end=not follow)
    try:
        _show_all(node, consumer, out, limit, follow=follow, as_json=as_json, verbose=verbose)
    finally:
        node.wait(consumer.close())


def _show_all(
    node: Conversation,
    consumer: StreamConsumer,
    out: BinaryIO,
    limit: int | None,
    *,
    follow: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    batches, left = consumer.batches(), limit
    while left != 0:
        batch = node.wait(_next_of(batches))
        if batch is None:
            break
        columns, low = batch.columns, batch.skip
        high = columns.count if left is None else min(columns.count, low + left)
        show(out, columns, low, high, as_json=as_json, verbose=verbose, partition=batch.partition)
        left = None if left is None else left - (high - low)
        if follow:
            out.flush()
    out.flush()


async def _next_of(batches: AsyncIterator[ReceivedBatch]) -> ReceivedBatch | None:
    return await anext(batches, None)


def _place(start: Start) -> str | int:
    if start.offset is not None:
        return start.offset
    return start.end or to_text(start.time_ns)
