"""Writing with Spark: a query that appends exactly once, beside a batch write, beside the producer of the SDK."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Benchmark, Result, Row, Unit, alternate, timed
from benchmarks.node_place import Ground, ground
from benchmarks.place import Place
from flowmesh.base.limits import MIB
from flowmesh.client import connect_blocking

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAMING = Row("Spark, streaming sink exactly-once, 100 B records", "Spark, batch sink, the same rows", 0.7)
BATCH = Row("Spark, batch sink, 100 B records, fsynced", "SDK producer, one process, as many", None)
_FILES = 4
_SCHEMA = "value binary"
_MICRO_BATCH = 4
"""So many times the records of a node's other benchmarks: what a query takes in at once when it has to catch up."""


class _Writes:
    """The same rows of Parquet, written again and again."""

    def __init__(self, spark: SparkSession, here: Ground, folder: Path, count: int) -> None:
        self._spark = spark
        self._here = here
        self._folder = folder
        self._rows = str(folder / "rows")
        self._count = count
        self._turn = 0
        made = spark.range(0, count, numPartitions=_FILES).selectExpr(
            "cast(lpad(string(id), 100, '0') as binary) as value"
        )
        made.write.parquet(self._rows)

    def _into(self, stream: str) -> dict[str, str]:
        """Options for an empty stream: the one of the round before is gone."""
        node = self._here.node
        with connect_blocking(node.url, token=node.token) as client:
            if stream in client.list_streams():
                client.stream(stream).delete()
            client.create_stream(stream)
        return {"url": node.url, "token": node.token, "stream": stream}

    def _require_all(self, stream: str) -> None:
        stored = self._here.end_offset(stream)
        if stored != self._count:
            raise ValueError(f"{stored} rows are stored, {self._count} were written")

    def batch(self) -> float:
        rows: DataFrame = self._spark.read.schema(_SCHEMA).parquet(self._rows)
        made = rows.write.format("flowmesh").mode("append").options(**self._into("batch"))
        seconds = timed(made.save)
        self._require_all("batch")
        return seconds

    def query(self) -> float:
        """What its micro-batches took, from the plan to the commit; starting a query is not counted."""
        self._turn += 1
        rows = self._spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", _FILES).parquet(self._rows)
        made = rows.writeStream.format("flowmesh").options(**self._into("query"))
        made = made.option("checkpointLocation", str(self._folder / f"checkpoint-{self._turn}"))
        running = made.trigger(availableNow=True).start()
        running.awaitTermination()
        self._require_all("query")
        return float(sum(progress["durationMs"]["triggerExecution"] for progress in running.recentProgress)) / 1000

    def sdk(self) -> float:
        return self._here.loader.seconds("produce", **self._into("sdk"), count=self._count)


def run(place: Place) -> list[Result]:
    import flowmesh.spark

    count, rounds = _MICRO_BATCH * place.sizes.node_records, place.sizes.rounds
    spark = flowmesh.spark.session("local[2]")
    try:
        with ground(place) as here, place.folder("spark") as folder:
            writes = _Writes(spark, here, folder, count)
            streaming = alternate(rounds, writes.query, writes.batch)
            batch = alternate(rounds, writes.batch, writes.sdk)
    finally:
        spark.stop()
    return [Result(STREAMING, streaming, Unit.RECORDS, count), Result(BATCH, batch, Unit.RECORDS, count)]


BENCHMARKS = (
    Benchmark(
        "spark-write",
        (STREAMING, BATCH),
        run,
        lambda sizes: _MICRO_BATCH * sizes.node_records * 4 * 120 + 128 * MIB,
    ),
)
