"""The sink: what Spark calls to write. Nothing of a record is looked at here, and no connection outlives a task.

A streaming query appends exactly once: its tasks have names that come again when a micro-batch does. A batch write does
so for the attempts of its tasks, and with option `writeId` for the whole of it. See docs/decisions/0011.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from flowmesh.spark.delivery import Delivery
from flowmesh.spark.errors import Condition, FlowMeshSparkError
from flowmesh.spark.lanes import ProducerName
from flowmesh.spark.rows import RowShape, routed, row_shape
from flowmesh.spark.sink_options import SinkPlan, sink_plan
from flowmesh.spark.worker_heap import settle

if TYPE_CHECKING:
    import pyarrow as pa

TASKS_MAX = 2_000
"""Of one micro-batch, or of a write with a name: each is a producer that every partition has to remember."""
EPOCH_MAX = 2**32 - 1


@dataclass(frozen=True)
class RowsWritten(WriterCommitMessage):
    """What a task tells the driver."""

    rows: int
    found: int
    """Of these, rows that an earlier attempt had stored already."""


class BatchSink(DataSourceArrowWriter):
    def __init__(self, plan: SinkPlan, shape: RowShape, partitions: int) -> None:
        self._plan = plan
        self._shape = shape
        self._partitions = partitions
        self._name = secrets.token_hex(16) if plan.write_id is None else f"write {plan.write_id}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = _task().partitionId()
        named = self._plan.write_id is not None
        producer = ProducerName(producer_id(self._name, str(self._plan.stream), task), 1 if named else 0)
        return _written(self._plan, self._shape, self._partitions, producer, iterator, spread=task, bounded=named)


class StreamSink(DataSourceStreamArrowWriter):
    def __init__(self, plan: SinkPlan, shape: RowShape) -> None:
        self._plan = plan
        self._shape = shape

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _task()
        query, batch = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
        if query is None or batch is None:
            raise FlowMeshSparkError(Condition.FAILED, f"{self._plan.where}: Spark says no query and no batch here.")
        task, epoch = context.partitionId(), int(batch) + 1
        if epoch > EPOCH_MAX:
            raise FlowMeshSparkError(
                Condition.FAILED, f"{self._plan.where}: micro-batch {batch} is over the limit of {EPOCH_MAX - 1}."
            )
        producer = ProducerName(producer_id(f"query {query}", str(self._plan.stream), task), epoch)
        return _written(self._plan, self._shape, None, producer, iterator, spread=task + epoch, bounded=True)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchSink:
    plan = sink_plan(options, overwrite=overwrite, streaming=False)
    shape = row_shape(schema, as_json=plan.as_json)
    with Delivery(plan, ProducerName(0, 0)) as delivery:
        return BatchSink(plan, shape, delivery.partitions())


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamSink:
    """Opens nothing: Spark makes one for each micro-batch, and another one to commit it."""
    plan = sink_plan(options, overwrite=overwrite, streaming=True)
    return StreamSink(plan, row_shape(schema, as_json=plan.as_json))


def producer_id(name: str, stream: str, task: int) -> int:
    """Above 0, and the same wherever and whenever it is computed."""
    digest = hashlib.sha256(f"{name}\0{stream}\0{task}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1 or 1


def _written(
    plan: SinkPlan,
    shape: RowShape,
    partitions: int | None,
    producer: ProducerName,
    batches: Iterator[pa.RecordBatch],
    *,
    spread: int,
    bounded: bool,
) -> RowsWritten:
    """Rows without key and partition all go to one partition, so that a task's rows are the same for it each time."""
    with Delivery(plan, producer) as delivery:
        for batch in batches:
            if not batch.num_rows:
                continue
            if bounded and _task().partitionId() >= TASKS_MAX:
                raise FlowMeshSparkError(
                    Condition.FAILED,
                    f"{plan.where}: over {TASKS_MAX} tasks write side by side.",
                    hint=f"Bring them together first, with .coalesce({TASKS_MAX}) or fewer.",
                )
            if partitions is None:
                partitions = delivery.partitions()
            for partition, rows in routed(batch, shape, partitions, spread % partitions):
                delivery.put(partition, rows)
            delivery.relieve()
        delivery.finish()
    settle()
    return RowsWritten(delivery.rows, delivery.found)


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark calls this in a task"
    return context
