"""`flowmesh.spark.read`: the archive by Spark's own reader of Parquet, and the rest from the log, as one DataFrame.

For whoever reads much of what is archived: `format("flowmesh")` reads it too, but through Python.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from flowmesh.base.errors import FlowMeshError
from flowmesh.spark.archive.job import store_of
from flowmesh.spark.batch_source import location_of, log_of, read_options, refuse
from flowmesh.spark.bounds import ends, starts
from flowmesh.spark.cold_tier import ColdPiece
from flowmesh.spark.errors import data_lost, explained
from flowmesh.spark.location import Location, Range
from flowmesh.spark.options import EARLIEST
from flowmesh.spark.schema import COLUMNS, ddl_of
from flowmesh.spark.tiered import AUTO, NONE, ArchiveLookup, TieredAsking

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SCHEMA = ", ".join(
    f"{name} {COLUMNS[name]}" for name in ("partition", "offset", "timestamp", "key", "value", "headers")
)
_ELSEWHERE = ("valueSchema", "valueColumn", "badRecords", "maxRecordsPerTrigger", "maxBytesPerTrigger", "group", "hold")
_OF_RANGES = frozenset({"startingoffsets", "endingoffsets", "startingtimestamp", "endingtimestamp", "partitions"})


class _Cut(NamedTuple):
    """Which offsets come from which tier, all from one manifest and one look at the log."""

    cold: list[ColdPiece]
    hot: list[Range]


def read(spark: SparkSession, stream: str | None = None, *, archive: str = AUTO, **options: Any) -> DataFrame:
    """A batch of both tiers, each record once. `options` are those of `format("flowmesh")`, spelled the same.

    The archive is where `archive` says, or where the node knows it to be. Filters reach the Parquet files. `block_id`
    is null for what comes from the archive. Columns of JSON (`valueSchema`) are for `format("flowmesh")`.
    """
    given = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
    if stream is not None:
        given["stream"] = stream
    refuse(given, _ELSEWHERE, "flowmesh.spark.read")
    values = read_options({**given, "archive": archive})
    location = location_of(values)
    ddl_of(values)  # says what is wrong with the columns that are asked for
    names = values["columns"] or tuple(COLUMNS)
    cut = _cut(spark, location, values)
    frames = [_cold(spark, location, cut.cold, names)] if cut.cold else []
    if cut.hot or not frames:
        frames.append(_hot(spark, given, cut.hot))
    return reduce(lambda one, other: one.unionByName(other), frames).select(*names)


def _cut(spark: SparkSession, location: Location, values: Mapping[str, Any]) -> _Cut:
    lookup = ArchiveLookup(location, values["archive"], partial(store_of, spark))
    asking = TieredAsking(log_of(location), lookup, always=True)
    try:
        facts = asking.facts()
        begin, end = starts(asking, facts, values, EARLIEST), ends(asking, facts, values)
        ranges = [Range(partition, begin[partition], end[partition]) for partition in sorted(begin)]
        return _shared(asking, location, ranges)
    except FlowMeshError as error:
        raise explained(error, f"stream {location.stream}") from None
    finally:
        asking.close()


def _shared(asking: TieredAsking, location: Location, ranges: Sequence[Range]) -> _Cut:
    """All that is archived from the archive: its reader is the faster one."""
    logs = {each.partition: each.start for each in asking.log_facts.partitions}
    cold: list[ColdPiece] = []
    hot: list[Range] = []
    for each in ranges:
        if each.start >= each.end:
            continue
        tier = asking.tier
        until = min(tier.end(each.partition), each.end) if tier is not None else each.start
        archived = asking.fill(each._replace(end=until)) if until > each.start else []
        begins = archived[0].start if archived else each.end
        if each.start < min(begins, logs[each.partition]):
            why = "neither the log nor the archive has them."
            lost = min(begins, logs[each.partition], each.end)
            raise data_lost(str(location.stream), each.partition, each.start, lost, why)
        if begins > each.start:
            hot.append(each)
            continue
        cold += archived
        if until < each.end:
            hot.append(each._replace(start=until))
    return _Cut(cold, hot)


def _cold(spark: SparkSession, location: Location, pieces: Sequence[ColdPiece], names: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions

    paths = [f"{_url(piece.location)}/{piece.file.name}" for piece in pieces]
    rows = spark.read.schema(SCHEMA).option("parquet.page.verify-checksum.enabled", "true").parquet(*paths)
    partly = [each for each in pieces if (each.start, each.end) != (each.file.base_offset, each.file.end_offset)]
    for condition in map(_inside, partly):
        rows = rows.where(condition)
    constants = {**location.stream._asdict(), "stream": location.stream.name, "block_id": None}
    columns = [
        rows[name] if name in rows.columns else functions.lit(constants[name]).cast("string").alias(name)
        for name in names
    ]
    return rows.select(*columns)


def _inside(piece: ColdPiece) -> Column:
    """Drops of one file what was not asked for, and touches no other."""
    from pyspark.sql.functions import col

    file = piece.file
    of_file = (col("partition") == piece.partition) & col("offset").between(file.base_offset, file.end_offset - 1)
    return ~of_file | col("offset").between(piece.start, piece.end - 1)


def _url(location: str) -> str:
    return f"file://{location}" if location.startswith("/") else location


def _hot(spark: SparkSession, given: Mapping[str, str], ranges: Sequence[Range]) -> DataFrame:
    """From the log alone, with every bound said. A partition of which nothing is wanted is not read."""
    reader = spark.read.format("flowmesh").option("archive", NONE)
    for name, value in given.items():
        if name.lower() not in _OF_RANGES:
            reader = reader.option(name, value)
    if not ranges:
        return reader.option("startingOffsets", "latest").option("endingOffsets", "latest").load()
    begin = {str(each.partition): each.start for each in ranges}
    end = {str(each.partition): each.end for each in ranges}
    reader = reader.option("partitions", ",".join(begin))
    return reader.option("startingOffsets", json.dumps(begin)).option("endingOffsets", json.dumps(end)).load()
