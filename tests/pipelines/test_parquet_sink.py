"""Files of a query's batches: each batch there once, whatever an earlier attempt left, whatever the place is called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from flowmesh.pipelines.parquet_sink import ASIDE, ParquetSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def numbers(place: Path) -> list[int]:
    """As a reader of plain files counts, who has never heard of Spark."""
    return sorted(n for file in place.glob("*.parquet") for n in pq.ParquetFile(file).read().column("id").to_pylist())


@pytest.mark.parametrize("name", ["plain", "of 2026 [a] {b,c} 100%"])
def test_a_batch_that_is_repeated_takes_the_place_of_its_first_attempt(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    place = tmp_path / name
    sink, other = (ParquetSink(str(place), query, {}) for query in ("mine", "other"))
    sink(spark.range(0, 10, numPartitions=3), 0)
    other(spark.range(50, 52, numPartitions=1), 0)
    sink(spark.range(10, 20, numPartitions=2), 1)
    sink(spark.range(10, 20, numPartitions=1), 1)
    assert numbers(place) == [*range(20), 50, 51]
    assert spark.read.parquet(str(place).replace("[", "\\[").replace("{", "\\{")).count() == 22


def test_what_a_killed_run_left_unfinished_goes_and_what_it_published_of_a_batch_is_replaced(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = ParquetSink(str(tmp_path), "mine", {})
    sink(spark.range(3), 7)
    (published, *_) = tmp_path.glob("*.parquet")
    prefix = published.name.partition("-")[0]
    for leftover in (f"{prefix}-20260101", "0123456789ab-7"):
        (tmp_path / ASIDE / leftover).mkdir(parents=True)
        (tmp_path / ASIDE / leftover / "part-00000.parquet").write_bytes(b"torn")
    sink(spark.range(5), 7)
    assert numbers(tmp_path) == [*range(5)]
    assert [each.name for each in (tmp_path / ASIDE).iterdir()] == ["0123456789ab-7"], "that of another query stays"


def test_a_batch_without_rows_leaves_no_file(spark: SparkSession, tmp_path: Path) -> None:
    ParquetSink(str(tmp_path), "mine", {})(spark.range(0), 3)
    assert list(tmp_path.glob("*.parquet")) == []
