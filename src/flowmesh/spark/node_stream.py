"""A stream behind a node: requests over one connection that is made anew, with random pauses, while a node restarts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from flowmesh.base.errors import FlowMeshError, Unauthenticated, Unavailable
from flowmesh.base.times import NANOSECONDS
from flowmesh.client.address import parse_address
from flowmesh.client.direct import DirectConnection
from flowmesh.client.received import entries
from flowmesh.format import batch as batches
from flowmesh.format import block as blocks
from flowmesh.operations.messages import (
    DescribeStream,
    FindOffset,
    FoundOffset,
    ReadRecords,
    Reply,
    Request,
    SplitStream,
    StreamDescription,
    StreamSplits,
)
from flowmesh.spark.errors import TRANSIENT, bad_option
from flowmesh.spark.location import PartitionFacts, Range, SizedRange, StreamFacts
from flowmesh.spark.options import NodeAccess, StreamName
from flowmesh.spark.reading import time_span

PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 2.0
IN_FLIGHT_MAX = 64
ReplyT = TypeVar("ReplyT", bound=Reply)
ResultT = TypeVar("ResultT")


class NodeLine:
    """One connection at a time, opened when it is needed. Repeats what is asked, so it is for reads and commits."""

    def __init__(self, access: NodeAccess, patience_ns: int | None = None) -> None:
        self._access = access
        self._patience_s = (access.patience_ns if patience_ns is None else patience_ns) / NANOSECONDS
        self._connection: DirectConnection | None = None
        self._token = ""
        """With which the connection was opened."""

    def connection(self) -> DirectConnection:
        if self._connection is None or self._connection.failure is not None:
            self.close()
            try:
                address = parse_address(self._access.url, self._access.ca_file)
            except OSError as error:
                raise bad_option("caFile", f"{self._access.ca_file} cannot be read: {error}") from None
            self._token = self._access.token_text()
            self._connection = DirectConnection(address, self._token)
        return self._connection

    def persist(self, work: Callable[[DirectConnection], ResultT]) -> ResultT:
        """Does `work`, again and again while the node is away, for as long as the query's patience lasts."""
        deadline = time.monotonic() + self._patience_s
        limit_s = PAUSE_FIRST_S
        while True:
            try:
                return work(self.connection())
            except Unauthenticated:
                self.close()
                if self._access.token_text() == self._token:
                    raise  # otherwise the file has another one by now, which is tried at once
            except TRANSIENT as error:
                self.close()
                pause = random.uniform(limit_s / 4, limit_s)
                if time.monotonic() + pause > deadline:
                    raise Unavailable(f"{self._access.url} did not serve for {self._patience_s:g} s: {error.message}")
                time.sleep(pause)
                limit_s = min(2 * limit_s, PAUSE_MAX_S)

    def ask(self, name: str, requests: Sequence[Request], reply: type[ReplyT]) -> list[ReplyT]:
        """The answers in order, of requests sent without waiting for one another."""

        def work(connection: DirectConnection) -> list[ReplyT]:
            found: list[ReplyT] = []
            for low in range(0, len(requests), IN_FLIGHT_MAX):
                sent = [connection.send(name, request) for request in requests[low : low + IN_FLIGHT_MAX]]
                found += [msgspec.msgpack.decode(connection.receive(number).header, type=reply) for number in sent]
            return found

        try:
            return self.persist(work)
        except FlowMeshError:
            self.close()  # answers to what was sent beside the one that failed are of no use
            raise

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(FlowMeshError, OSError):
                connection.close()


class NodeStream:
    def __init__(self, access: NodeAccess, stream: StreamName) -> None:
        self.line = NodeLine(access)
        self._stream = stream

    def facts(self) -> StreamFacts:
        (found,) = self.line.ask("stream.describe", [DescribeStream(*self._stream)], StreamDescription)
        partitions = [PartitionFacts(p.partition, p.start_offset, p.end_offset, p.size_bytes) for p in found.partitions]
        return StreamFacts(f"{found.id}@{found.created}", tuple(partitions))

    def find(self, moments: dict[int, int]) -> dict[int, int]:
        requests = [FindOffset(*self._stream, partition=p, time=str(moment)) for p, moment in moments.items()]
        found = self.line.ask("stream.find", requests, FoundOffset)
        return {partition: answer.offset for partition, answer in zip(moments, found, strict=True)}

    def split(self, ranges: Sequence[Range], split_bytes: int) -> list[SizedRange]:
        requests = [SplitStream(*self._stream, p, start, end, split_bytes) for p, start, end in ranges]
        return [
            SizedRange(answer.partition, piece.base_offset, piece.end_offset, piece.size_bytes)
            for answer in self.line.ask("stream.split", requests, StreamSplits)
            for piece in answer.splits
        ]

    def times(self, partition: int, offset: int) -> tuple[int, int, int]:
        request = ReadRecords(*self._stream, partition=partition, offset=offset, bytes_max=1, limit=1)
        answer = self.line.persist(lambda connection: connection.receive(connection.send("stream.read", request)))
        entry = next(entries(answer.body))
        header = batches.decode_header(entry, blocks.PREFIX_SIZE)
        body = entry[blocks.PREFIX_SIZE + batches.HEADER_SIZE : -blocks.CRC.size]
        return (*time_span(batches.Batch(header, body)), header.end_offset)

    def close(self) -> None:
        self.line.close()
