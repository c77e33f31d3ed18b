"""`spark.readStream.format("flowmesh")` against a real node: limits, checkpoints, restarts of both sides, losses."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from flowmesh.client import connect_blocking
from flowmesh.spark.planning import HotPiece
from flowmesh.spark.stream_source import StreamReader
from flowmesh.testing import NodeProcess
from tests.spark.streams import Stream
from tests.spark.test_batch_source import trim

PATIENCE_S = 100


class Sink:
    """Runs queries one after another into one memory table each, over one checkpoint."""

    def __init__(self, spark: SparkSession, stream: Stream, checkpoint: Path) -> None:
        self.spark = spark
        self.stream = stream
        self.checkpoint = checkpoint
        self.runs = 0
        self.rows: list[tuple[int, int]] = []
        self.batches: list[int] = []

    def start(self, **options: str) -> StreamingQuery:
        return self._writer(options).start()

    def _writer(self, options: dict[str, str]) -> DataStreamWriter:
        frame = self.stream.stream(self.spark, **{"startingOffsets": "earliest"} | options)
        return frame.writeStream.option("checkpointLocation", str(self.checkpoint)).foreachBatch(self._take)

    def drain(self, **options: str) -> list[int]:
        """Reads all there is, and says how many records each micro-batch had."""
        self.batches = []
        query = self._writer(options).trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_S)
        return self.batches

    def _take(self, frame: Any, _number: int) -> None:
        found = [(row.partition, row.offset) for row in frame.select("partition", "offset").collect()]
        self.rows += found
        self.batches.append(len(found))

    def wait_for(self, rows: int, query: StreamingQuery) -> None:
        until(lambda: len(self.rows) >= rows or query.exception() is not None)
        assert query.exception() is None, query.exception()


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


@pytest.fixture
def sink(spark: SparkSession, stream: Stream, tmp_path: Path) -> Sink:
    return Sink(spark, stream, tmp_path / "checkpoint")


def expected(counts: dict[int, int]) -> list[tuple[int, int]]:
    return [(partition, offset) for partition, count in counts.items() for offset in range(count)]


def test_all_that_is_there_is_read_within_limits_and_then_only_what_is_new(sink: Sink) -> None:
    sink.stream.fill(1, 100, partition=0)
    sink.stream.fill(1, 50, partition=1)
    batches = sink.drain(maxRecordsPerTrigger="60", columns="partition,offset", group="counted", hold="1h")
    assert batches == [60, 60, 30]
    assert sorted(sink.rows) == expected({0: 100, 1: 50})
    with connect_blocking(sink.stream.node.url, token=sink.stream.node.token) as client:
        group = client.stream(sink.stream.name).group("counted")
    assert (group.kind, group.lag, group.hold_s) == ("spark", 0, 3600)
    assert {each.partition: each.offset for each in group.partitions} == {0: 100, 1: 50}
    sink.stream.fill(1, 7, partition=1)
    assert sink.drain(columns="partition,offset") == [7]
    assert sorted(sink.rows) == expected({0: 100, 1: 57})


def test_bytes_limit_a_micro_batch(sink: Sink) -> None:
    sink.stream.fill(12, 200, partition=0, width=200)
    batches = sink.drain(maxBytesPerTrigger="150KiB", columns="partition,offset")
    assert sum(batches) == 2400
    assert 3 <= len(batches) <= 6
    assert sorted(sink.rows) == expected({0: 2400})


def test_a_stream_begins_at_its_end_unless_told_otherwise(sink: Sink) -> None:
    sink.stream.fill(1, 10)
    query = sink.start(startingOffsets="latest")
    until(lambda: query.status["message"] == "Waiting for data to arrive")
    sink.stream.fill(1, 5)
    sink.wait_for(5, query)
    query.stop()
    sink.stream.fill(1, 1)
    assert sink.drain(startingOffsets="latest")[-1:] == [1]
    assert sorted(set(sink.rows)) == [(0, offset) for offset in range(10, 16)]


def test_files_are_followed_while_the_node_writes_them(sink: Sink) -> None:
    sink.stream.fill(1, 10)
    query = sink.start(**sink.stream.files)
    sink.wait_for(10, query)
    sink.stream.fill(1, 10, partition=1)
    sink.wait_for(20, query)
    query.stop()
    assert sorted(sink.rows) == expected({0: 10, 1: 10})


def test_a_node_may_be_killed_under_a_query(spark: SparkSession, own_node: NodeProcess, tmp_path: Path) -> None:
    stream = Stream.create(own_node, "survives", partitions=2)
    sink = Sink(spark, stream, tmp_path / "checkpoint")
    stream.fill(1, 20)
    query = sink.start(group="survivor", maxRecordsPerTrigger="15")
    sink.wait_for(20, query)
    for round_ in range(2):
        own_node.kill()
        time.sleep(0.5)
        own_node.start()
        stream.fill(1, 20, partition=round_)
        sink.wait_for(40 + 20 * round_, query)
    query.stop()
    assert sorted(sink.rows) == expected({0: 40, 1: 20})


def test_a_query_waits_no_longer_than_it_may(spark: SparkSession, own_node: NodeProcess, tmp_path: Path) -> None:
    stream = Stream.create(own_node, "gone")
    sink = Sink(spark, stream, tmp_path / "checkpoint")
    stream.fill(1, 5)
    query = sink.start(reconnectTimeout="1s")
    sink.wait_for(5, query)
    own_node.stop()
    assert_fails(query, "FLOWMESH_NODE_UNREACHABLE", "reconnectTimeout")
    own_node.start()


def assert_fails(query: StreamingQuery, *parts: str) -> None:
    until(lambda: query.exception() is not None)
    for part in parts:
        assert part in str(query.exception())


def raise_failure(query: StreamingQuery) -> None:
    until(lambda: query.exception() is not None)
    failure = query.exception()
    assert failure is not None
    raise failure


def test_a_deleted_stream_ends_the_query_and_a_new_one_is_not_mistaken_for_it(sink: Sink) -> None:
    sink.stream.fill(1, 5)
    query = sink.start()
    sink.wait_for(5, query)
    with connect_blocking(sink.stream.node.url, token=sink.stream.node.token) as client:
        client.stream(sink.stream.name).delete()
    assert_fails(query, "FLOWMESH_STREAM_NOT_FOUND", sink.stream.name)
    Stream.create(sink.stream.node, sink.stream.name)
    assert_fails(sink.start(), "FLOWMESH_CHECKPOINT_MISMATCH", "checkpointLocation")


def test_a_token_that_ends_ends_the_query(sink: Sink) -> None:
    with connect_blocking(sink.stream.node.url, token=sink.stream.node.token) as client:
        made = client.create_token(tenant="default", permissions=["stream.read"])
    sink.stream.fill(1, 5)
    query = sink.start(token=made.token)
    sink.wait_for(5, query)
    with connect_blocking(sink.stream.node.url, token=sink.stream.node.token) as client:
        client.revoke_token(made.id)
    assert_fails(query, "FLOWMESH_TOKEN_REFUSED", "tokenFile")
    assert made.token.partition(".")[2] not in str(query.exception())


def test_a_checkpoint_behind_retention_fails_or_skips(
    spark: SparkSession, own_node: NodeProcess, tmp_path: Path
) -> None:
    stream = Stream.create(own_node, "behind", segment_bytes=64 * 1024)
    sink = Sink(spark, stream, tmp_path / "checkpoint")
    stream.fill(1, 10)
    sink.drain()
    stream.fill(8, 200, width=200)
    trim(own_node, stream)
    with connect_blocking(own_node.url, token=own_node.token) as client:
        start = client.stream("behind").describe().partitions[0].start_offset
    kept = shutil.copytree(sink.checkpoint, tmp_path / "kept")
    assert_fails(sink.start(), "FLOWMESH_DATA_LOST", f"partition 0: offsets [10, {start}) are gone", "onDataLoss")
    sink.checkpoint = kept
    sink.rows.clear()
    sink.drain(onDataLoss="skip")
    assert sorted(sink.rows) == [(0, offset) for offset in range(start, 1610)]


@pytest.mark.parametrize(
    "options, parts",
    [
        ({"endingOffsets": "latest"}, ["endingOffsets", "a stream"]),
        ({"hold": "1h"}, ["hold", "group"]),
        ({"maxRecordPerTrigger": "5"}, ["FLOWMESH_UNKNOWN_OPTION", "maxRecordsPerTrigger"]),
    ],
)
def test_options_of_a_stream_are_checked(sink: Sink, options: dict[str, str], parts: list[str]) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 (before or after the start, wrapped by Spark)
        raise_failure(sink.start(**options))
    for part in parts:
        assert part in str(caught.value)


def test_a_replay_is_cut_as_the_first_time(stream: Stream) -> None:
    stream.fill(12, 200, partition=0, width=200)
    stream.fill(1, 20, partition=1)
    options = stream.access | {"stream": stream.name, "splitBytes": "100KiB", "startingOffsets": "earliest"}
    schema = StructType().add("value", "binary")
    reader = StreamReader(options, schema)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    first = reader.plan(start, end)
    stream.fill(5, 200, partition=0, width=200)
    again = StreamReader(options, schema)
    assert again.plan(start, end) == first
    assert len([piece for piece in first.pieces if piece.partition == 0]) > 3
    assert first.pieces[-1] == HotPiece(1, 0, 20, first.pieces[-1].size_bytes)
    assert [task.pieces for task in again.plan(start, end).tasks()] == [task.pieces for task in first.tasks()]
    for each in (reader, again):
        each.stop()
