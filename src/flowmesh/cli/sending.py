"""The work of `stream append`: lines become records, and a producer batches and delivers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

from flowmesh.base.errors import FlowMeshError
from flowmesh.cli import meter
from flowmesh.cli.lines import LineReader, Stop
from flowmesh.cli.ndjson import BadLine, InputRecord, parse
from flowmesh.cli.talking import Conversation
from flowmesh.client import StreamProducer

LINGER_MS = 20.0
PIECE_RECORDS = 5_000
"""So many at a time go to the loop of the client: it stays responsive, and the crossing costs nothing each."""


class SendOutcome(NamedTuple):
    stream: str
    records: int
    durability: str
    interrupted: bool
    fault: FlowMeshError | None
    sound: bool
    """Whether all that was counted is known to be stored."""


def send(
    node: Conversation, name: str, stream: BinaryIO, *, ndjson: bool, partition: int | None, compress: bool
) -> SendOutcome:
    """Appends all of `stream`, or as much of it as can be, and says how far it came."""
    handle = node.stream(name)
    described = node.wait(handle.describe())
    producer = node.wait(handle.producer(linger_ms=LINGER_MS, compress=compress))
    stop = Stop()
    sender = _Sender(node, producer, partition)
    sound = True
    with stop.listening(), meter.counting(f"appending to {handle}") as told:
        try:
            fault = _pump(sender, LineReader(stream, stop), told, ndjson=ndjson)
            node.wait(producer.close())
        except FlowMeshError as error:
            fault, sound = error, False
    return SendOutcome(str(handle), sender.records, described.durability, stop.wanted, fault, sound)


class _Sender:
    def __init__(self, node: Conversation, producer: StreamProducer, partition: int | None) -> None:
        self.records = 0
        self._node = node
        self._producer = producer
        self._partition = partition

    def lines(self, lines: Sequence[bytes]) -> None:
        self._node.wait(self._producer.send_many(lines, partition=self._partition))
        self.records += len(lines)

    def parsed(self, records: Sequence[InputRecord]) -> None:
        for first in range(0, len(records), PIECE_RECORDS):
            piece = records[first : first + PIECE_RECORDS]
            self._node.wait(self._each(piece))
            self.records += len(piece)

    async def _each(self, records: Sequence[InputRecord]) -> None:
        for value, key, headers, time_ns in records:
            await self._producer.send(value, key=key, headers=headers, time_ns=time_ns, partition=self._partition)


def _pump(sender: _Sender, reader: LineReader, told: meter.Advance, *, ndjson: bool) -> FlowMeshError | None:
    """From the first line to the last. A line that cannot be taken ends it; what came before it is appended."""
    while True:
        first_line = reader.lines_read + 1
        try:
            lines = reader.read(None)
        except FlowMeshError as error:
            return error
        if lines is None:
            return None
        before = sender.records
        if not ndjson:
            sender.lines(lines)
        else:
            records, fault = _parsed(lines, first_line)
            sender.parsed(records)
            if fault is not None:
                return fault
        told(sender.records - before)


def _parsed(lines: Sequence[bytes], first_line: int) -> tuple[list[InputRecord], FlowMeshError | None]:
    records: list[InputRecord] = []
    for number, line in enumerate(lines, first_line):
        if line and not line.isspace():
            try:
                records.append(parse(line))
            except BadLine as error:
                return records, error.at(number)
    return records, None
