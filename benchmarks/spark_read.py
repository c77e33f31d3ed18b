"""Reading with Spark: values, typed values, a range of times and micro-batches, beside what Spark reads by itself."""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Benchmark, Result, Row, Samples, Unit, alternate, timed
from benchmarks.place import Place, Sizes
from flowmesh.client import connect_blocking
from flowmesh.testing.node_process import NodeProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VALUES = Row("Spark, values of 100 B counted, from segment files", "Spark's Parquet reader, the same values", 0.9)
NETWORK = Row("Spark, the same over the network", "from segment files", 0.5)
TYPED = Row("Spark, JSON by `valueSchema`, groupBy", "`from_json` over Parquet, the same groupBy", 2)
RANGE = Row("Spark, 1 % of a stream by a filter on time, all columns", "all of it", 10)
MICRO_BATCH = Row("Spark, micro-batch of 1,000 records, noop sink, p50", "Spark's own rate source, likewise")
PARTITIONS = 4
BLOCK_RECORDS = 1000
RECORDS_MAX = 5_000_000
JSON_SCHEMA = "user STRING, amount DOUBLE, ok BOOLEAN, kind STRING"
Durations = dict[str, int]
"""Of one micro-batch, in milliseconds, as Spark says them."""
_WHOLE = "triggerExecution"
_T0_NS = 1_700_000_000_000_000_000
_MILLISECOND_NS = 1_000_000
_KINDS = (b"paid", b"sent", b"lost", b"new")


def records(sizes: Sizes) -> int:
    """Whole blocks in each partition."""
    unit = PARTITIONS * BLOCK_RECORDS
    return max(min(sizes.log_bytes // 200, RECORDS_MAX) // unit, 10) * unit


class _Reads:
    """Two streams of one node and the same values as Parquet. Records are a millisecond apart, in each partition."""

    def __init__(self, spark: SparkSession, node: NodeProcess, folder: Path, count: int) -> None:
        self.spark = spark
        self.count = count
        self._node = node
        self._folder = folder
        for name in ("plain", "json"):
            self._fill(name)
            columns = self.files(name, columns="value")
            columns.write.parquet(str(folder / name))

    def _fill(self, name: str) -> None:
        with connect_blocking(self._node.url, token=self._node.token) as client:
            stream = client.create_stream(name, partitions=PARTITIONS)
            for first in range(0, self.count // PARTITIONS, BLOCK_RECORDS):
                times = [_T0_NS + row * _MILLISECOND_NS for row in range(first, first + BLOCK_RECORDS)]
                for partition in range(PARTITIONS):
                    values = _plain() if name == "plain" else _json(first)
                    stream.append_many(values, times_ns=times, partition=partition)

    def files(self, stream: str, **options: str) -> DataFrame:
        return self._read({"dataDir": str(self._node.data_dir)} | options, stream)

    def network(self, stream: str, **options: str) -> DataFrame:
        return self._read({"url": self._node.url, "token": self._node.token} | options, stream)

    def _read(self, options: dict[str, str], stream: str) -> DataFrame:
        return self.spark.read.format("flowmesh").options(**options).load(stream)

    def parquet(self, stream: str) -> DataFrame:
        return self.spark.read.parquet(str(self._folder / stream))

    # --- what is timed: from the naming of the source to the answer ---------------------------------------------

    def values_from_files(self) -> float:
        return timed(lambda: _count(self.files("plain", columns="value"), self.count))

    def values_from_network(self) -> float:
        return timed(lambda: _count(self.network("plain", columns="value"), self.count))

    def values_from_parquet(self) -> float:
        return timed(lambda: _count(self.parquet("plain"), self.count))

    def typed(self) -> float:
        schema = {"valueSchema": JSON_SCHEMA, "columns": "user,amount,ok,kind"}
        return timed(lambda: _grouped(self.files("json", **schema)))

    def from_json(self) -> float:
        from pyspark.sql import functions

        def work() -> None:
            parsed = functions.from_json(functions.col("value").cast("string"), JSON_SCHEMA)
            _grouped(self.parquet("json").select(parsed.alias("v")).select("v.*"))

        return timed(work)

    def all_columns(self) -> float:
        return timed(lambda: _discard(self.files("plain")))

    def hundredth(self) -> float:
        span_ns = self.count // PARTITIONS * _MILLISECOND_NS
        begin, end = (_T0_NS + span_ns * percent // 100 for percent in (50, 51))
        where = f"timestamp >= timestamp_micros({begin // 1000}) AND timestamp < timestamp_micros({end // 1000})"
        # Every record is in the order of its time, and who knows that says it: else a minute more is read.
        return timed(lambda: _discard(self.files("plain", lateness="0s").where(where)))

    def micro_batches(self, batches: int) -> list[Durations]:
        stream = self.spark.readStream.format("flowmesh").options(url=self._node.url, token=self._node.token)
        limited = stream.options(startingOffsets="earliest", maxRecordsPerTrigger=str(BLOCK_RECORDS), columns="value")
        return self._durations(limited.load("plain"), batches)

    def rate_batches(self, batches: int) -> list[Durations]:
        rate = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", str(BLOCK_RECORDS))
        return self._durations(rate.load(), batches)

    def _durations(self, frame: DataFrame, batches: int) -> list[Durations]:
        """Of micro-batches, the first ones left out: all of it, from the trigger to the commit, and its parts."""
        warm = 5
        query = frame.writeStream.format("noop").start()
        while len(found := [each for each in query.recentProgress if each["numInputRows"]]) < warm + batches:
            if query.awaitTermination(1):
                break
        query.stop()
        return [each["durationMs"] for each in found[warm : warm + batches]]


def _whole(batches: list[Durations]) -> list[float]:
    return [each[_WHOLE] / 1000 for each in batches]


def _parts(batches: list[Durations]) -> str:
    """The median of each part, the longest first."""
    names = dict.fromkeys(name for each in batches for name in each if name != _WHOLE)
    medians = {name: statistics.median(each.get(name, 0) for each in batches) for name in names}
    longest = sorted(medians, key=lambda name: -medians[name])
    return ", ".join(f"{name} {medians[name]:.0f} ms" for name in longest)


def _plain() -> list[bytes]:
    data = os.urandom(100 * BLOCK_RECORDS)
    return [data[place : place + 100] for place in range(0, len(data), 100)]


def _json(first: int) -> list[bytes]:
    return [
        b'{"user":"user-%05d","amount":%d.25,"ok":true,"kind":"%s","note":"%s"}'
        % (row % 10_000, row % 1000, _KINDS[row % 4], b"x" * 25)
        for row in range(first, first + BLOCK_RECORDS)
    ]


def _count(frame: DataFrame, expected: int) -> None:
    found = frame.selectExpr("count(value)").collect()[0][0]
    if found != expected:
        raise ValueError(f"{found} values were read, not {expected}")


def _grouped(frame: DataFrame) -> None:
    frame.groupBy("kind").agg({"amount": "sum", "user": "max"}).collect()


def _discard(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def run(place: Place) -> list[Result]:
    import flowmesh.spark

    count, rounds = records(place.sizes), place.sizes.rounds
    spark = flowmesh.spark.session("local[2]")
    try:
        with place.folder("spark-read") as folder, NodeProcess(folder / "data") as node:
            reads = _Reads(spark, node, folder, count)
            for _ in range(2):  # the JVM compiles what it runs often
                reads.values_from_files()
                reads.values_from_parquet()
            values = alternate(rounds, reads.values_from_files, reads.values_from_parquet)
            network = alternate(rounds, reads.values_from_network, reads.values_from_files)
            typed = alternate(rounds, reads.typed, reads.from_json)
            ranged = alternate(rounds, reads.hundredth, reads.all_columns)
            batches = min(20, count // BLOCK_RECORDS - 5)
            micro, rate = reads.micro_batches(batches), reads.rate_batches(batches)
    finally:
        spark.stop()
    return [
        Result(VALUES, values, Unit.RECORDS, count),
        Result(NETWORK, network, Unit.RECORDS, count),
        Result(TYPED, typed, Unit.RECORDS, count),
        Result(RANGE, ranged, Unit.OPERATIONS),
        Result(
            MICRO_BATCH, Samples(_whole(micro), _whole(rate)), Unit.OPERATIONS, note=f"its parts, p50: {_parts(micro)}"
        ),
    ]


def disk_bytes(sizes: Sizes) -> int:
    """Both streams and both copies in Parquet, and what Spark spills."""
    return 4 * 125 * records(sizes)


BENCHMARKS = (Benchmark("spark-read", (VALUES, NETWORK, TYPED, RANGE, MICRO_BATCH), run, disk_bytes),)
