"""Workers of Spark that are settled: their collector has little to go through, and no other process is touched."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from flowmesh.spark.worker_heap import settle
from tests.spark.streams import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def frozen_count(_row: int) -> int:
    return gc.get_freeze_count()


def test_a_worker_that_has_read_is_settled_and_the_driver_is_not(spark: SparkSession, stream: Stream) -> None:
    stream.fill(1, 10)
    before = gc.get_freeze_count()
    assert stream.read(spark).count() == 10
    settle()
    assert gc.get_freeze_count() == before
    counts = spark.sparkContext.parallelize(range(8), 8).map(frozen_count).collect()
    assert max(counts) > 10_000
