"""The driver of a test's cluster, in a process of its own: reads, a query from stream to stream, an archive of it.

What it found goes to a file as JSON. Where a directory for marks is given, an executor is killed in the query's middle.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as sf

import flowmesh.spark
from flowmesh.client import connect_blocking
from tests.spark.archives import archive_stream

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SOURCE, TARGET = "source", "target"
SPLIT_BYTES = 3 << 20
RECORDS_MAX = 25_000
ROWS_MAX = 1_000
"""Of what Spark hands to Python at once: small, so that a task has stored a part when it is killed."""
BATCHES_BEFORE_DEATH = 4
STORED_WITHIN_S = 60


class Job(NamedTuple):
    master: str
    url: str
    token: str
    root: str
    """Of the checkpoint, the archive, and what Spark keeps."""
    data_dir: str
    """The node's: for the archive, and for nothing else."""
    kill_executor: bool

    @property
    def access(self) -> dict[str, str]:
        return {"url": self.url, "token": self.token}


def run(job: Job) -> dict[str, Any]:
    conf = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "768m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_MAX),
        "spark.sql.warehouse.dir": f"{job.root}/warehouse",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    }
    spark = flowmesh.spark.session(job.master, conf=conf)
    try:
        read = batch(spark, job)
        before = tasks_by_executor(spark)
        query(spark, job)
        after = tasks_by_executor(spark)
        return read | {
            "driver": os.getpid(),
            "query_tasks": {name: count - before.get(name, 0) for name, count in after.items()},
            "archived": archive_stream(spark, job.url, job.token, job.data_dir, TARGET, cold(job)).records,
            "native": counted(flowmesh.spark.read(spark, TARGET, archive=cold(job), **job.access, columns="value")),
            "joined": counted(
                spark.read.format("flowmesh").options(**job.access, columns="value", archive=cold(job)).load(TARGET)
            ),
        }
    finally:
        spark.stop()


def batch(spark: SparkSession, job: Job) -> dict[str, Any]:
    """A filter and named columns. The directory that is named is nowhere to be seen, so all comes over the network."""
    frame = (
        spark.read.format("flowmesh")
        .options(**job.access, columns="partition,offset,value", splitBytes=str(SPLIT_BYTES), dataDir="/not/here")
        .load(SOURCE)
    )
    rows = frame.where("offset >= 1000 AND partition IN (0, 1)")
    found = rows.agg(sf.count("*"), sf.sum(number()), sf.min("offset")).collect()[0]
    places = rows.rdd.mapPartitions(place_of_task).collect()
    return {"count": found[0], "sum": found[1], "first": found[2], "places": places}


def number() -> Any:
    return sf.col("value").cast("string").substr(1, 12).cast("long")


def place_of_task(rows: Iterable[Any]) -> Iterator[tuple[int, str, int]]:
    """The process, the directory, and how many rows came to it."""
    yield os.getpid(), os.getcwd(), sum(1 for _ in rows)


def tasks_by_executor(spark: SparkSession) -> dict[str, int]:
    told = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return {told.apply(at).id(): told.apply(at).completedTasks() for at in range(told.size())}


def query(spark: SparkSession, job: Job) -> None:
    """All that is there now, in several micro-batches, through Python and the exactly-once sink."""
    rows = (
        spark.readStream.format("flowmesh")
        .options(**job.access, columns="value", splitBytes=str(SPLIT_BYTES), startingOffsets="earliest")
        .option("group", "cluster")
        .option("maxRecordsPerTrigger", str(RECORDS_MAX))
        .load(SOURCE)
    )
    if job.kill_executor:
        rows = rows.mapInArrow(deadly(job), rows.schema)
    running = (
        rows.writeStream.format("flowmesh")
        .options(**job.access)
        .option("checkpointLocation", f"{job.root}/checkpoint")
        .trigger(availableNow=True)
        .start(TARGET)
    )
    running.awaitTermination()


def deadly(job: Job) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Kills the executor that it runs in, once, when rows of this very micro-batch are stored already."""
    mark, url, token = Path(job.root) / "killed", job.url, job.token

    def stored() -> int:
        with connect_blocking(url, token=token) as client:
            return sum(each.end_offset for each in client.stream(TARGET).describe().partitions)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for count, rows in enumerate(batches):
            yield rows
            if count >= BATCHES_BEFORE_DEATH and not mark.exists():
                deadline = time.monotonic() + STORED_WITHIN_S
                while not (rows_stored := stored()) and time.monotonic() < deadline:
                    time.sleep(0.02)
                mark.write_text(str(rows_stored))
                os.kill(parent_of(os.getppid()), signal.SIGKILL)

    return work


def parent_of(pid: int) -> int:
    """Workers are children of a daemon, which is a child of the executor."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def cold(job: Job) -> str:
    return f"{job.root}/cold"


def counted(frame: DataFrame) -> tuple[int, int, int]:
    """How many, how many different ones, and their sum."""
    found = frame.agg(sf.count("*"), sf.countDistinct("value"), sf.sum(number())).collect()[0]
    return found[0], found[1], found[2]


if __name__ == "__main__":
    given = Job(**json.loads(sys.argv[1]))
    (Path(given.root) / "report.json").write_text(json.dumps(run(given)))
