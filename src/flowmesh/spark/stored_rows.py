"""What a producer has stored in one partition, read back from the node: the rows of an earlier attempt."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import msgspec
import pyarrow as pa

from flowmesh.base.errors import FlowMeshError, OffsetOutOfRange
from flowmesh.base.limits import MIB
from flowmesh.base.times import NANOSECONDS
from flowmesh.client.direct import DirectConnection
from flowmesh.client.received import received
from flowmesh.format.arrow import to_arrow
from flowmesh.format.frame import Frame
from flowmesh.operations.frames import BlocksRead
from flowmesh.operations.messages import ReadRecords
from flowmesh.spark.errors import Condition, FlowMeshSparkError, explained
from flowmesh.spark.lanes import Lane, ProducerName
from flowmesh.spark.node_stream import NodeLine
from flowmesh.spark.sink_options import SinkPlan

_READ_BYTES = 4 * MIB
_READ_WAIT_MS = 1_000
_decode = msgspec.msgpack.Decoder(BlocksRead).decode


def stored_rows(
    plan: SinkPlan, producer: ProducerName, lane: Lane, first_sequence: int, since: int
) -> Iterator[pa.RecordBatch]:
    """Rows with sequences from `first_sequence` to where the lane stands now; they begin at `since`, or behind it."""
    return _rows(plan, producer, lane, lane.names, first_sequence, lane.next_sequence, since)


def rows_beyond(plan: SinkPlan, producer: ProducerName, lane: Lane) -> int:
    """How many rows are stored for this lane behind the last that it knows."""
    where = f"{plan.where}, partition {lane.partition}"
    line, offset, count = NodeLine(plan.node), lane.end_offset or 0, 0
    try:
        while True:
            request = ReadRecords(*plan.stream, partition=lane.partition, offset=offset, bytes_max=_READ_BYTES)
            answer = line.persist(partial(_read, request))
            headers = [batch.batch.header for batch in received(lane.partition, answer.body, offset)]
            count += sum(header.count for header in headers if (header.producer_id, header.producer_epoch) == producer)
            facts = _decode(answer.header)
            offset = facts.next_offset
            if offset >= facts.end_offset:
                return count
    except FlowMeshError as error:
        raise explained(error, where) from error
    finally:
        line.close()


def _rows(
    plan: SinkPlan, producer: ProducerName, lane: Lane, names: list[str], sequence: int, end: int, offset: int
) -> Iterator[pa.RecordBatch]:
    where = f"{plan.where}, partition {lane.partition}"
    line = NodeLine(plan.node)
    deadline = time.monotonic() + plan.node.patience_ns / NANOSECONDS
    try:
        while sequence < end:
            request = ReadRecords(
                *plan.stream, partition=lane.partition, offset=offset, bytes_max=_READ_BYTES, wait_ms=_READ_WAIT_MS
            )
            try:
                answer = line.persist(partial(_read, request))
            except OffsetOutOfRange as error:
                if offset >= error.start_offset:
                    raise
                offset = error.start_offset
                continue
            for batch in received(lane.partition, answer.body, offset):
                header = batch.batch.header
                if (header.producer_id, header.producer_epoch) != producer or sequence >= end:
                    continue
                if header.first_sequence > sequence:
                    raise _trimmed(where, header.first_sequence - sequence)
                if header.first_sequence + header.count > sequence:
                    lane.end_offset = header.end_offset
                    yield to_arrow(batch.batch, names).slice(sequence - header.first_sequence)
                    sequence = header.first_sequence + header.count
            if not answer.body and time.monotonic() > deadline:
                raise _trimmed(where, end - sequence)
            offset = _decode(answer.header).next_offset
    except FlowMeshError as error:
        raise explained(error, where) from error
    finally:
        line.close()


def _read(request: ReadRecords, connection: DirectConnection) -> Frame:
    return connection.receive(connection.send("stream.read", request))


def _trimmed(where: str, count: int) -> FlowMeshSparkError:
    return FlowMeshSparkError(
        Condition.REPLAY_DIFFERS,
        f"{where}: {count} rows that an earlier attempt of this task stored are not there any more.",
        option="replay",
        hint="Retention has taken them. Option 'replay' = 'count' goes on behind as many rows as were stored.",
    )
