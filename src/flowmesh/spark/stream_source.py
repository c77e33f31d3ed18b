"""`spark.readStream.format("flowmesh")`: positions in the checkpoint, limited micro-batches, the same pieces on replay.

It lives on the driver as long as its query, and rides out a node that is restarted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from flowmesh.base.errors import FlowMeshError
from flowmesh.base.limits import MIB
from flowmesh.spark.admission import within_bytes, within_rows
from flowmesh.spark.batch_source import BATCH_ONLY, PieceReader, asking_of, refuse
from flowmesh.spark.bounds import chosen_partitions, starts
from flowmesh.spark.errors import Condition, FlowMeshSparkError, bad_option, data_lost, explained
from flowmesh.spark.location import PartitionFacts, Range, StreamFacts
from flowmesh.spark.options import LATEST
from flowmesh.spark.planning import ReadPlan, clipped, plan
from flowmesh.spark.publishing import Publisher
from flowmesh.spark.task_cuts import cuts_between
from flowmesh.spark.tiered import TieredAsking

SPLIT_BYTES = 64 * MIB
"""Fixed, where no option says it: a batch that is run again on another machine has the same pieces."""
Position = dict[str, Any]
"""As Spark keeps it: `{"stream": <id>, "offsets": {"0": 12}, "tasks": {}}`; `tasks` cuts the batch that ends there."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        refuse(given, BATCH_ONLY, "a stream")
        self._pieces = PieceReader(given, schema)
        self._values = self._pieces.values
        self._stream = self._pieces.location.stream
        self._asking: TieredAsking | None = None
        self._publisher: Publisher | None = None
        self._target: dict[int, int] | None = None
        """Where a query with Trigger.AvailableNow ends."""
        self._planned: tuple[Position, Position, ReadPlan] | None = None
        """The next batch, which was planned to say where its tasks begin."""
        if self._values["hold"] is not None and self._values["group"] is None:
            raise bad_option("hold", "a hold belongs to a group.", "Give option 'group' a name for this query.")
        if self._values["group"] is not None and self._pieces.location.node is None:
            raise bad_option("group", "files have no groups.", "Give option 'url' too: then the node is told.")

    def __getstate__(self) -> dict[str, Any]:
        """What travels to executors reads pieces, and does nothing else."""
        return {**self.__dict__, "_asking": None, "_publisher": None, "_target": None, "_planned": None}

    # --- positions ----------------------------------------------------------------------------------------------

    def initialOffset(self) -> Position:  # noqa: N802 (Spark's names, here and below)
        with _Explaining(self._stream):
            facts = self._facts()
            return _position(facts, starts(self._asked(), facts, self._values, LATEST))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._values["maxRecordsPerTrigger"] is not None:
            return ReadMaxRows(self._values["maxRecordsPerTrigger"])
        if self._values["maxBytesPerTrigger"] is not None:
            return ReadMaxBytes(self._values["maxBytesPerTrigger"])
        return ReadAllAvailable()

    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:  # noqa: N802
        """Spark asks this when all before `start` is done with, which is so told to the group."""
        with _Explaining(self._stream):
            facts = self._facts(start)
            begin = self._begin(facts, start)
            self._publish(begin)
            logs = {each.partition: each for each in facts.partitions}
            ranges = {partition: (offset, self._end(logs[partition])) for partition, offset in begin.items()}
            limited = self._limited(ranges, logs, limit)
            if self._publisher is not None and all(end <= begin[partition] for partition, end in limited.items()):
                self._publisher.flush()
            end = {partition: max(offset, begin[partition]) for partition, offset in limited.items()}
            return self._planned_to(start, _position(facts, end))

    def reportLatestOffset(self) -> Position | None:  # noqa: N802
        with _Explaining(self._stream):
            facts = self._facts()
            return _position(facts, {each.partition: each.end for each in facts.partitions})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with _Explaining(self._stream):
            self._target = {each.partition: each.end for each in self._facts().partitions}

    def _planned_to(self, start: Position, end: Position) -> Position:
        """The end of a batch, with the tasks it is cut into. Where nothing is new, `start` itself: Spark compares."""
        if start["offsets"] == end["offsets"]:
            return start
        found = self._plan(start, end)
        end["tasks"] = cuts = cuts_between([task.pieces for task in found.tasks()])
        self._planned = (start, end, found._replace(cuts=cuts))
        return end

    def _end(self, log: PartitionFacts) -> int:
        return log.end if self._target is None else min(log.end, self._target.get(log.partition, log.start))

    def _limited(
        self, ranges: Mapping[int, tuple[int, int]], logs: Mapping[int, PartitionFacts], limit: ReadLimit
    ) -> dict[int, int]:
        """Both limits hold where both are given, though Spark knows of one only. Trigger.Once sets them aside."""
        ends = {partition: end for partition, (_, end) in ranges.items()}
        if isinstance(limit, ReadAllAvailable):
            return ends
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._values["maxRecordsPerTrigger"]
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._values["maxBytesPerTrigger"]
        if size is not None:
            # What the log has lost has no size; the plan deals with it.
            there = [Range(p, max(low, logs[p].start), high) for p, (low, high) in ranges.items()]
            ends |= within_bytes(self._asked(), [each for each in there if each.start < each.end], size)
        if rows is not None:
            ends = within_rows({p: (low, ends[p]) for p, (low, _) in ranges.items()}, rows)
        return ends

    def _begin(self, facts: StreamFacts, start: Position) -> dict[int, int]:
        """The position with partitions that it does not name yet, from their beginning."""
        begin = {int(partition): int(offset) for partition, offset in start["offsets"].items()}
        logs = {each.partition: each for each in facts.partitions}
        for partition, offset in begin.items():
            log = logs.get(partition)
            if log is None or offset > log.end:
                end = 0 if log is None else log.end
                raise data_lost(str(self._stream), partition, end, offset, f"the log ends at {end}, before the query.")
        return {**{each.partition: each.start for each in chosen_partitions(facts, self._values)}, **begin}

    # --- micro-batches ------------------------------------------------------------------------------------------

    def partitions(self, start: Position, end: Position) -> Sequence[InputPartition]:
        with _Explaining(self._stream):
            return self.plan(start, end).tasks()

    def plan(self, start: Position, end: Position) -> ReadPlan:
        """The same two positions make the same tasks, however often, whenever, and of whichever tier."""
        planned, self._planned = self._planned, None
        if planned is None or planned[:2] != (start, end):
            self._facts(end)
            return self._plan(start, end)
        return planned[2]

    def _plan(self, start: Position, end: Position) -> ReadPlan:
        facts = self._asked().log_facts
        low = {int(partition): int(offset) for partition, offset in start["offsets"].items()}
        high = {int(partition): int(offset) for partition, offset in end["offsets"].items()}
        logs = {each.partition: each.start for each in facts.partitions}
        ranges = clipped({p: (low.get(p, logs.get(p, 0)), offset) for p, offset in high.items()})
        if self._publisher is None:
            self._publish({p: low.get(p, logs.get(p, 0)) for p in high})
        found = plan(
            self._asked(),
            str(self._stream),
            facts,
            ranges,
            self._values["splitBytes"] or SPLIT_BYTES,
            skip_lost=self._pieces.skip_lost,
            filler=self._asked(),
        )
        return found._replace(cuts=end.get("tasks"))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._pieces.batches(partition)

    def commit(self, end: Position) -> None:
        """Spark calls this one batch late, and never for the last one: `latestOffset` says it sooner."""
        self._publish({int(partition): int(offset) for partition, offset in end["offsets"].items()})

    def stop(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
        if self._asking is not None:
            self._asking.close()

    # --- the stream ---------------------------------------------------------------------------------------------

    def _asked(self) -> TieredAsking:
        if self._asking is None:
            self._asking = asking_of(self._pieces.location, self._values["archive"])
        return self._asking

    def _facts(self, position: Position | None = None) -> StreamFacts:
        facts: StreamFacts = self._asked().facts()
        if position is not None and position.get("stream") != facts.id:
            raise FlowMeshSparkError(
                Condition.CHECKPOINT_MISMATCH,
                f"the checkpoint belongs to another stream than the one that {self._stream} names now: "
                "it was deleted and made anew, or the query reads another node or directory.",
                option="checkpointLocation",
                hint="Give the query a new checkpointLocation.",
            )
        return facts

    def _publish(self, offsets: dict[int, int]) -> None:
        group, node = self._values["group"], self._pieces.location.node
        if group is None or node is None:
            return
        if self._publisher is None:
            self._publisher = Publisher(node, self._stream, group, self._values["hold"])
            self._publisher.start(offsets)
        else:
            self._publisher.publish(offsets)


class _Explaining:
    """Turns errors of the layers below into those that users of Spark are told of."""

    def __init__(self, stream: object) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FlowMeshError) and not isinstance(error, FlowMeshSparkError):
            raise explained(error, f"stream {self._stream}") from None


def _position(facts: StreamFacts, offsets: Mapping[int, int]) -> Position:
    return {"stream": facts.id, "offsets": {str(partition): offset for partition, offset in sorted(offsets.items())}}
