"""`spark.read.format("flowmesh")`: one plan, then tasks that read their pieces."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from flowmesh.base.errors import FlowMeshError
from flowmesh.spark.bounds import Narrowing, ends, narrowed, starts
from flowmesh.spark.errors import Condition, FlowMeshSparkError, bad_option, explained
from flowmesh.spark.file_stream import FileStream, is_log
from flowmesh.spark.filters import pushed
from flowmesh.spark.location import Location, StreamAsking
from flowmesh.spark.node_stream import NodeStream
from flowmesh.spark.options import EARLIEST, READ_OPTIONS, StreamName, checked, node_access, stream_name
from flowmesh.spark.planning import PieceTask, ReadPlan, ReadSettings, clipped, even_split_bytes, plan
from flowmesh.spark.schema import Projection
from flowmesh.spark.tiered import ArchiveLookup, TieredAsking
from flowmesh.spark.worker_heap import settle

STREAM_ONLY = ("maxRecordsPerTrigger", "maxBytesPerTrigger", "group", "hold")
BATCH_ONLY = ("endingOffsets", "endingTimestamp")
PUSH_DOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


def read_options(given: Mapping[str, str]) -> dict[str, Any]:
    """The options of a read, batch or stream, checked by name and value."""
    return checked(given, READ_OPTIONS)


def refuse(given: Mapping[str, str], names: Iterable[str], what: str) -> None:
    for name in names:
        if name.lower() in {each.lower() for each in given}:
            raise FlowMeshSparkError(
                Condition.BAD_OPTION, f"option '{name}' has no meaning for {what}.", option=name, hint="Leave it out."
            )


def location_of(values: Mapping[str, Any]) -> Location:
    """Where the stream is. The token is looked for here, so this runs where the query is made."""
    stream, data_dir = stream_name(values), values["dataDir"]
    bare_log = data_dir is not None and is_log(Path(data_dir))
    node = node_access(values) if data_dir is None or values["url"] is not None else None
    if stream is None:
        if not bare_log:
            raise bad_option("stream", "no stream is named.", "Write load('orders'), or tenant/namespace/name.")
        stream = StreamName(values["tenant"], values["namespace"], Path(data_dir).resolve().name)
    if node is None and data_dir is None:
        raise bad_option("url", "nothing says where the stream is.", "Give option 'url', or 'dataDir' for files.")
    return Location(stream, node, data_dir)


def log_of(location: Location) -> StreamAsking:
    """The log, through its node or its files."""
    if location.node is not None:
        return NodeStream(location.node, location.stream)
    assert location.data_dir is not None
    return FileStream(location.data_dir, location.stream)


def asking_of(location: Location, archive: str) -> TieredAsking:
    """The log and its archive."""
    return TieredAsking(log_of(location), ArchiveLookup(location, archive))


class PieceReader:
    """What batch and stream readers share: options, columns, and reading the pieces of a task."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self.values = read_options(given)
        self.location = location_of(self.values)
        self.projection = Projection(schema, self.location.stream, self.values)
        self.skip_lost: bool = self.values["onDataLoss"] == "skip"
        self.settings = ReadSettings(
            self.location,
            self.projection.record_columns,
            self.values["verify"],
            self.skip_lost,
            ArchiveLookup(self.location, self.values["archive"]),
        )

    def batches(self, task: InputPartition) -> Iterator[pa.RecordBatch]:
        for piece in task.pieces if isinstance(task, PieceTask) else ():
            try:
                for batch in piece.record_batches(self.settings):
                    yield self.projection.apply(batch, piece.partition)
            except FlowMeshError as error:
                place = f"partition {piece.partition}, offsets [{piece.start}, {piece.end})"
                raise explained(error, f"stream {self.location.stream}, {place}") from None
        settle()


class BatchReader(DataSourceReader):
    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        refuse(given, STREAM_ONLY, "a batch")
        self.narrowing = Narrowing()
        self.pieces = PieceReader(given, schema)

    def partitions(self) -> list[InputPartition]:
        tasks = self.plan().tasks()
        settle()
        return [*tasks]  # Spark turns an empty list into a task without pieces

    def plan(self) -> ReadPlan:
        location, values = self.pieces.location, self.pieces.values
        asking = asking_of(location, values["archive"])
        try:
            facts = asking.facts()
            begin, end = starts(asking, facts, values, EARLIEST), ends(asking, facts, values)
            ranges = {partition: (begin[partition], end[partition]) for partition in begin}
            ranges = narrowed(asking, ranges, self.narrowing, values["lateness"])
            wanted = clipped(ranges)
            split_bytes = values["splitBytes"] or even_split_bytes(asking.log_facts, wanted, os.cpu_count() or 1)
            return plan(
                asking,
                str(location.stream),
                asking.log_facts,
                wanted,
                split_bytes,
                skip_lost=self.pieces.skip_lost,
                filler=asking,
            )
        except FlowMeshError as error:
            raise explained(error, f"stream {location.stream}") from None
        finally:
            asking.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.pieces.batches(partition)


class FilteringReader(BatchReader):
    """The same with push-down. Spark refuses a reader that can do this in a session where it is switched off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        found = pushed(filters)
        self.narrowing = self.narrowing.within(found.narrowing)
        return found.left


def batch_reader(given: Mapping[str, str], schema: StructType) -> BatchReader:
    """With push-down exactly where Spark asks for it: in the worker that it starts for filters, and in no other."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    asked = PUSH_DOWN_WORKER in sys.modules or getattr(main, "name", None) == PUSH_DOWN_WORKER
    return FilteringReader(given, schema) if asked else BatchReader(given, schema)
