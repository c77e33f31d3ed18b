"""Rows of one task to the node, each exactly once: through lost answers, restarts of the node, and other attempts.

A lane's next sequence is only given to rows after all that is stored below it is known, row for row. So whichever of
several attempts the node takes a batch from, it is one whose rows are not there yet. See docs/decisions/0011.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress
from operator import itemgetter
from types import TracebackType
from typing import NamedTuple, Self

import msgspec
import pyarrow as pa

from flowmesh.base.errors import (
    DiskFull,
    FlowMeshError,
    Internal,
    OutOfOrderSequence,
    ProducerFenced,
    StorageFailed,
    Unavailable,
)
from flowmesh.base.limits import MIB
from flowmesh.base.times import NANOSECONDS
from flowmesh.client.address import parse_address
from flowmesh.client.direct import DirectConnection
from flowmesh.format.batch import Producer
from flowmesh.format.frame import FrameFlag
from flowmesh.operations.messages import (
    AppendReceipt,
    AppendRecords,
    DescribeStream,
    PartitionAppend,
    StreamDescription,
)
from flowmesh.spark.errors import TRANSIENT, Condition, FlowMeshSparkError, explained
from flowmesh.spark.lanes import BatchUnderWay, Lane, ProducerName, encoded
from flowmesh.spark.node_stream import PAUSE_FIRST_S, PAUSE_MAX_S
from flowmesh.spark.sink_options import SinkPlan
from flowmesh.spark.stored_rows import rows_beyond, stored_rows

UNDER_WAY_BYTES_MAX = 16 * MIB
"""Of all lanes together; below what the node takes from one connection."""
WAITING_BYTES_MAX = 64 * MIB
"""Rows of all lanes that wait to become batches."""
_PASSING = (*TRANSIENT, DiskFull, StorageFailed, Internal)
"""What may be gone when the same is tried again. A batch that was stored after all is known by its sequence."""
_BATCH = int(FrameFlag.BATCH)
_decode_receipt = msgspec.msgpack.Decoder(AppendReceipt).decode


class _Disturbance(NamedTuple):
    """What is stored beyond what this attempt knows: up to which sequence, and from which offset on."""

    stored_to: int = 0
    since: int | None = None


class Delivery:
    def __init__(self, plan: SinkPlan, producer: ProducerName) -> None:
        self._plan = plan
        self._producer = producer
        self._lanes: dict[int, Lane] = {}
        self._connection: DirectConnection | None = None
        self._under_way_bytes = 0
        self._patience_s = plan.node.patience_ns / NANOSECONDS
        self._troubled_since: float | None = None
        self._pause_s = PAUSE_FIRST_S
        self.rows = 0
        self.found = 0
        """Rows that were stored before this attempt came to them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._disconnect()

    def partitions(self) -> int:
        """How many the stream has."""
        request = DescribeStream(*self._plan.stream)
        while True:
            if self._connection is None:
                self._connect()
            connection = self._connection
            assert connection is not None, "it was opened just now"
            try:
                return len(connection.request("stream.describe", request, StreamDescription).partitions)
            except _PASSING as error:
                self._reconnect(error)
            except FlowMeshError as error:
                raise explained(error, self._plan.where) from error

    def put(self, partition: int, rows: pa.RecordBatch) -> None:
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = Lane(partition)
        self.rows += len(rows)
        lane.put(rows)
        while lane.is_full:
            self._send_next(lane)

    def relieve(self) -> None:
        """Keeps what waits in many lanes within its bound."""
        while sum(lane.waiting_bytes for lane in self._lanes.values()) > WAITING_BYTES_MAX:
            self._send_next(max(self._lanes.values(), key=lambda lane: lane.waiting_bytes))

    def finish(self) -> None:
        """Returns once everything is acknowledged."""
        busy = list(self._lanes.values())
        while busy:
            for lane in busy:
                self._settle(lane)
                if not lane.is_empty:
                    self._send_next(lane)
            busy = [lane for lane in busy if lane.under_way or not lane.is_empty]
        for lane in self._lanes.values():
            missing = lane.replay.missing if lane.replay is not None else lane.to_skip
            if lane.met_others and not missing and self._plan.by_rows:
                missing = rows_beyond(self._plan, self._producer, lane)
            if missing:
                raise self._differs(lane, missing)

    # --- sending ------------------------------------------------------------------------------------------------

    def _send_next(self, lane: Lane) -> None:
        while lane.under_way is not None:
            self._settle(lane)
        while self._under_way_bytes > UNDER_WAY_BYTES_MAX:
            waited = [(other.under_way.number, other) for other in self._lanes.values() if other.under_way is not None]
            self._settle(min(waited, key=itemgetter(0))[1])
        if lane.is_empty:
            return
        rows = lane.take_batch()
        try:
            data = encoded(rows, Producer(*self._producer, lane.next_sequence), self._plan.codec)
        except FlowMeshError as error:
            raise explained(error, self._plan.where) from error
        lane.under_way = BatchUnderWay(0, lane.next_sequence, rows, data)
        self._under_way_bytes += len(data)
        if self._connection is None:
            self._connect()
            return
        try:
            self._transmit(self._connection, lane)
        except _PASSING as error:
            self._reconnect(error)

    def _transmit(self, connection: DirectConnection, lane: Lane) -> None:
        assert lane.under_way is not None, "there is something to send"
        request = AppendRecords(*self._plan.stream, partition=lane.partition)
        number = connection.send("stream.append", request, lane.under_way.data, flags=_BATCH)
        lane.under_way = lane.under_way._replace(number=number)

    def _connect(self) -> None:
        """A connection, over which all that is not acknowledged goes (again), as it was."""
        while True:
            try:
                address = parse_address(self._plan.node.url, self._plan.node.ca_file)
                connection = self._connection = DirectConnection(address, self._plan.node.token_text())
                for lane in self._lanes.values():
                    if lane.under_way is not None:
                        self._transmit(connection, lane)
                return
            except _PASSING as error:
                self._disconnect()
                self._pause(error)
            except FlowMeshError as error:
                raise explained(error, self._plan.where) from error

    def _reconnect(self, error: FlowMeshError) -> None:
        self._disconnect()
        self._pause(error)
        self._connect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(FlowMeshError, OSError):
                connection.close()

    def _pause(self, error: FlowMeshError) -> None:
        """Raises the error when nothing was acknowledged since the trouble began, for as long as patience lasts."""
        pause = random.uniform(self._pause_s / 4, self._pause_s)
        if self._troubled_since is None:
            self._troubled_since = time.monotonic()
        if time.monotonic() + pause > self._troubled_since + self._patience_s:
            raise explained(error, f"{self._plan.where}, for {self._patience_s:g} s") from error
        time.sleep(pause)
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)

    # --- answers ------------------------------------------------------------------------------------------------

    def _settle(self, lane: Lane) -> None:
        """Takes the answer to what a lane has under way. After one that was not expected the lane is set right."""
        sending, connection = lane.under_way, self._connection
        if sending is None:
            return
        assert connection is not None, "what is under way has a connection"
        answer = _answer(connection, sending)
        if connection.failure is not None:
            self._reconnect(connection.failure)
            return
        self._under_way_bytes -= len(sending.data)
        if isinstance(answer, PartitionAppend) and not answer.repeated:
            lane.under_way = None
            lane.next_sequence, lane.end_offset = sending.end_sequence, answer.end_offset
            self._troubled_since = None
            self._pause_s = PAUSE_FIRST_S
        else:
            lane.take_back()
            self._set_right(lane, self._judged(lane, answer, sending))

    def _judged(self, lane: Lane, answer: PartitionAppend | FlowMeshError, sending: BatchUnderWay) -> _Disturbance:
        where = f"{self._plan.where}, partition {lane.partition}"
        match answer:
            case PartitionAppend():
                return _Disturbance(sending.end_sequence, answer.base_offset)
            case OutOfOrderSequence(next_sequence=int(following)):
                if following < lane.next_sequence:
                    raise FlowMeshSparkError(
                        Condition.DATA_LOST,
                        f"{where}: of {lane.next_sequence} rows that were acknowledged the node knows {following}.",
                        hint="Was it set back to an older state while this query ran?",
                    )
                return _Disturbance(following, answer.since_offset)
            case ProducerFenced():
                raise FlowMeshSparkError(
                    Condition.FENCED,
                    f"{where}: a newer micro-batch of this query has written already; this task is a leftover.",
                    hint="Nothing is lost. If the query itself fails so, two runs of it share one checkpoint.",
                ) from answer
            case _ if isinstance(answer, _PASSING):
                self._pause(answer)
                return _Disturbance()
        raise explained(answer, where) from answer

    def _set_right(self, lane: Lane, found: _Disturbance) -> None:
        """What another attempt stored, or this one before an answer got lost, is looked for among the rows."""
        count, first = found.stored_to - lane.next_sequence, lane.next_sequence
        since = lane.end_offset if lane.end_offset is not None else found.since
        if count <= 0:
            return
        if since is None:
            self._pause(Unavailable("what another attempt stored cannot be seen yet."))
            return
        self.found += count
        lane.met_others = True
        lane.next_sequence = found.stored_to
        if self._plan.by_rows:
            lane.compare(stored_rows(self._plan, self._producer, lane, first, since))
        else:
            lane.skip(count)

    def _differs(self, lane: Lane, missing: int) -> FlowMeshSparkError:
        return FlowMeshSparkError(
            Condition.REPLAY_DIFFERS,
            f"{self._plan.where}, partition {lane.partition}: an earlier attempt of this task stored {missing} rows "
            "that this attempt does not bring. Nothing was appended twice.",
            option="replay",
            hint="A query that makes other rows each time (rand(), uuid()) needs option 'replay' = 'count'. "
            "Or its tasks were cut otherwise: run it again with as many cores as before.",
        )


def _answer(connection: DirectConnection, sending: BatchUnderWay) -> PartitionAppend | FlowMeshError:
    try:
        return _decode_receipt(connection.receive(sending.number).header).appends[0]
    except FlowMeshError as error:
        return error
