"""A streaming query in a process of its own, for tests that kill it: files of numbers, one file a micro-batch."""

from __future__ import annotations

import sys

from pyspark.sql import functions as sf

import flowmesh.spark

ROW_BYTES = 100


def run(files: str, checkpoint: str, url: str, token: str, stream: str, patience: str, prepared: str) -> None:
    """To the end of the files. `prepared` says what happens to the rows on the way."""
    spark = flowmesh.spark.session("local[2]", conf={"spark.sql.shuffle.partitions": "3"})
    rows = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).parquet(files)
    if prepared == "shuffled":
        rows = rows.repartition(3, "n")
    text = sf.lpad(sf.col("n").cast("string"), ROW_BYTES, "0")
    query = (
        rows.select(text.alias("value"), (sf.col("n") % 97).cast("string").alias("key"))
        .writeStream.format("flowmesh")
        .option("url", url)
        .option("token", token)
        .option("reconnectTimeout", patience)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(stream)
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    run(*sys.argv[1:])
