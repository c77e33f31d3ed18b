"""A streaming query in a process of its own, for tests that kill it: numbers from files or a stream, to a stream."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sf

import flowmesh.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW_BYTES = 100
GROUP = "live"


class Query(NamedTuple):
    url: str
    token: str
    checkpoint: str
    target: str
    files: str | None = None
    """Parquet with a column `n`, of which each file is a micro-batch."""
    stream: str | None = None
    """Or a stream of JSON with a field `n`."""
    prepared: str = "plain"
    """What happens to the rows on the way; `shuffled`, they come in another order each time."""
    patience: str = "90s"
    drains: bool = True
    """Whether it ends when it has read what was there at its start."""

    @property
    def access(self) -> dict[str, str]:
        return {"url": self.url, "token": self.token, "reconnectTimeout": self.patience}


def numbers(spark: SparkSession, query: Query) -> DataFrame:
    if query.files is not None:
        return spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).parquet(query.files)
    assert query.stream is not None, "numbers come from files or from a stream"
    source = spark.readStream.format("flowmesh").options(**query.access, valueSchema="n BIGINT", columns="n")
    options = {"startingOffsets": "earliest", "maxRecordsPerTrigger": "20000", "group": GROUP, "hold": "1h"}
    return source.options(**options).load(query.stream)


def run(query: Query) -> None:
    spark = flowmesh.spark.session("local[2]", conf={"spark.sql.shuffle.partitions": "3"})
    rows = numbers(spark, query)
    if query.prepared == "shuffled":
        rows = rows.repartition(3, "n")
    text = sf.lpad(sf.col("n").cast("string"), ROW_BYTES, "0")
    writer = (
        rows.select(text.alias("value"), (sf.col("n") % 97).cast("string").alias("key"))
        .writeStream.format("flowmesh")
        .options(**query.access)
        .option("checkpointLocation", query.checkpoint)
    )
    writer = writer.trigger(availableNow=True) if query.drains else writer.trigger(processingTime="0 seconds")
    writer.start(query.target).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    run(Query(**json.loads(sys.argv[1])))
