"""What a query meets on its way: records and tokens that are not good, streams that go, a past that is archived."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from flowmesh.client import connect_blocking
from flowmesh.testing import NodeProcess
from tests.cli.running import call
from tests.spark.archives import archive_stream
from tests.spark.query_kills import stored_count, stored_numbers
from tests.spark.streams import Stream
from tests.spark.test_sink import forget_commit
from tests.spark.test_stream_source import PATIENCE_S, Sink, assert_fails, sink, until

__all__ = ["sink"]
SEGMENT_BYTES = 64 * 1024


def copying(frame: DataFrame, target: Stream, folder: Path, *, drains: bool = True, **options: str) -> StreamingQuery:
    writer = frame.writeStream.format("flowmesh").options(**target.access | options)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(availableNow=True) if drains else writer).start(target.name)


def target_of(stream: Stream, partitions: int = 1) -> Stream:
    return Stream.create(stream.node, f"{stream.name}-to", partitions=partitions)


# --- records --------------------------------------------------------------------------------------------------------


def test_malformed_json_becomes_nulls_with_a_reason_or_ends_the_query(
    spark: SparkSession, stream: Stream, tmp_path: Path
) -> None:
    stream.append([b'{"a":1}', b'{"a":', b'{"a":"x"}', None, b'{"a":5}'])
    found: list[tuple[int, int | None, bool]] = []

    def take(frame: DataFrame, _number: int) -> None:
        found.extend((row.offset, row.a, row._error is not None) for row in frame.collect())

    for bad, place in (("null", "lenient"), ("fail", "strict")):
        options = {"valueSchema": "a INT", "badRecords": bad, "startingOffsets": "earliest"}
        writer = stream.stream(spark, **options).writeStream.foreachBatch(take)
        query = writer.option("checkpointLocation", str(tmp_path / place)).trigger(availableNow=True).start()
        if bad == "null":
            assert query.awaitTermination(PATIENCE_S)
        else:
            assert_fails(query, "FLOWMESH_BAD_RECORD", "partition 0, offset 1", "badRecords")
    assert sorted(found) == [(0, 1, False), (1, None, True), (2, None, True), (3, None, False), (4, 5, False)]


def test_columns_that_are_no_record_end_a_query_before_anything_is_stored(
    spark: SparkSession, stream: Stream, tmp_path: Path
) -> None:
    stream.fill(1, 5)
    target = target_of(stream)
    frame = stream.stream(spark, startingOffsets="earliest", columns="value,offset")
    with pytest.raises(Exception, match="FLOWMESH_BAD_SCHEMA") as caught:
        copying(frame, target, tmp_path / "other").awaitTermination(PATIENCE_S)
    assert "'offset'" in str(caught.value)
    typed = frame.selectExpr("offset AS value")
    with pytest.raises(Exception, match="'value' is bigint"):
        copying(typed, target, tmp_path / "typed").awaitTermination(PATIENCE_S)
    assert stored_count(target.node, target.name) == 0


# --- tokens and streams ---------------------------------------------------------------------------------------------


class Tokens:
    """Made for a test, and replaced: then the old one ends by the clock, under connections that are open."""

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        with connect_blocking(node.url, token=node.token) as client:
            permissions = ["stream.read", "stream.write"]
            self.first = client.create_token(tenant="default", permissions=permissions)

    def replace(self) -> str:
        """The first one is good for a second more."""
        with connect_blocking(self._node.url, token=self._node.token) as client:
            return str(client.rotate_token(self.first.id, overlap_s=1).token)


def test_a_token_that_runs_out_ends_a_query_that_reads(sink: Sink) -> None:
    sink.stream.fill(1, 5)
    tokens = Tokens(sink.stream.node)
    query = sink.start(token=tokens.first.token)
    sink.wait_for(5, query)
    tokens.replace()
    assert_fails(query, "FLOWMESH_TOKEN_REFUSED", "tokenFile")
    assert tokens.first.token.partition(".")[2] not in str(query.exception())


def test_a_token_that_runs_out_ends_a_query_that_writes_and_the_next_goes_on(
    spark: SparkSession, stream: Stream, tmp_path: Path
) -> None:
    target, tokens = target_of(stream), Tokens(stream.node)
    stream.fill(1, 5)
    frame = stream.stream(spark, startingOffsets="earliest", columns="value")
    query = copying(frame, target, tmp_path, drains=False, token=tokens.first.token)
    until(lambda: stored_count(target.node, target.name) == 5)
    tokens.replace()
    count = appended_until(stream, 5, lambda: query.exception() is not None)
    assert_fails(query, "FLOWMESH_TOKEN_REFUSED", target.name, "tokenFile")
    assert tokens.first.token.partition(".")[2] not in str(query.exception())
    assert copying(frame, target, tmp_path).awaitTermination(PATIENCE_S)
    assert stored_numbers(target.node, target.name) == list(range(count))


def test_a_token_file_that_is_written_anew_keeps_a_query_going(
    spark: SparkSession, stream: Stream, tmp_path: Path
) -> None:
    """What is asked over connections that the old token has opened is asked again with the new one."""
    target, tokens = target_of(stream), Tokens(stream.node)
    file = tmp_path / "token"
    file.write_text(tokens.first.token)
    stream.fill(1, 5)
    access = {"url": stream.node.url, "tokenFile": str(file), "columns": "value", "group": "kept"}
    frame = spark.readStream.format("flowmesh").options(**access, startingOffsets="earliest").load(stream.name)
    writer = frame.writeStream.format("flowmesh").options(url=stream.node.url, tokenFile=str(file))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(target.name)
    until(lambda: stored_count(target.node, target.name) == 5)
    file.write_text(tokens.replace())
    ended = time.monotonic() + 3
    count = appended_until(stream, 5, lambda: query.exception() is not None or time.monotonic() > ended)
    until(lambda: query.exception() is not None or stored_count(target.node, target.name) >= count)
    assert query.exception() is None, query.exception()
    with connect_blocking(stream.node.url, token=stream.node.token) as client:
        until(lambda: client.stream(stream.name).group("kept").lag == 0)
    query.stop()
    assert stored_numbers(target.node, target.name) == list(range(count))


def appended_until(stream: Stream, first: int, done: Callable[[], bool]) -> int:
    """One record after another; says how many there are then."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "it did not come about"
        stream.append([b"%020d" % first])
        first += 1
        time.sleep(0.1)
    return first


def test_a_target_that_is_deleted_ends_the_query(spark: SparkSession, stream: Stream, tmp_path: Path) -> None:
    target = target_of(stream)
    stream.fill(1, 5)
    frame = stream.stream(spark, startingOffsets="earliest", columns="value")
    query = copying(frame, target, tmp_path, drains=False)
    until(lambda: stored_count(target.node, target.name) == 5)
    with connect_blocking(stream.node.url, token=stream.node.token) as client:
        client.stream(target.name).delete()
    stream.fill(1, 5)
    assert_fails(query, "FLOWMESH_STREAM_NOT_FOUND", target.name)


# --- a past that is archived ----------------------------------------------------------------------------------------


def archived(spark: SparkSession, stream: Stream, cold: Path) -> int:
    """Archives all of a stream, and returns where the log begins when retention has followed."""
    node = stream.node
    archive_stream(spark, node.url, node.token, node.data_dir, stream.name, cold)
    with connect_blocking(node.url, token=node.token) as client:
        handle = client.stream(stream.name)
        before = handle.describe().partitions[0].start_offset
        handle.alter(retention_bytes=100_000)
        until(lambda: handle.describe().partitions[0].start_offset > before)
        time.sleep(0.5)
        return handle.describe().partitions[0].start_offset


def test_a_checkpoint_behind_retention_goes_on_in_the_archive(
    spark: SparkSession, own_node: NodeProcess, tmp_path: Path
) -> None:
    """With `onDataLoss` = `fail`, which it is unless somebody says otherwise: nothing is lost here."""
    stream = Stream.create(own_node, "past", segment_bytes=SEGMENT_BYTES)
    sink = Sink(spark, stream, tmp_path / "checkpoint")
    stream.fill(1, 100)
    assert sink.drain() == [100]
    stream.fill(8, 200, width=200)
    assert archived(spark, stream, tmp_path / "cold") > 100
    stream.fill(1, 50)
    batches = sink.drain(maxRecordsPerTrigger="400")
    assert (len(batches), sum(batches)) == (5, 1650)
    assert sorted(sink.rows) == [(0, offset) for offset in range(1750)]


def test_what_neither_log_nor_archive_has_is_named(spark: SparkSession, own_node: NodeProcess, tmp_path: Path) -> None:
    """The archive begins behind the checkpoint: only what lies before it is lost."""
    stream = Stream.create(own_node, "gap", segment_bytes=SEGMENT_BYTES)
    sink = Sink(spark, stream, tmp_path / "checkpoint")
    stream.fill(1, 10)
    sink.drain()
    stream.fill(8, 200, width=200)
    with connect_blocking(own_node.url, token=own_node.token) as client:
        handle = client.stream("gap")
        handle.alter(retention_bytes=100_000)
        until(lambda: handle.describe().partitions[0].start_offset > 10)
        time.sleep(0.5)
        begin = handle.describe().partitions[0].start_offset
        handle.alter(retention_bytes=10_000_000)
    stream.fill(8, 200, width=200)
    assert archived(spark, stream, tmp_path / "cold") > begin
    assert_fails(sink.start(), "FLOWMESH_DATA_LOST", f"partition 0: offsets [10, {begin}) are gone", "onDataLoss")
    sink.checkpoint = tmp_path / "another"
    sink.rows.clear()
    sink.drain(startingOffsets='{"0": 10}', onDataLoss="skip")
    assert sorted(sink.rows) == [(0, offset) for offset in range(begin, 3210)]


def test_a_micro_batch_that_comes_again_is_cut_as_before_though_it_is_archived_now(
    spark: SparkSession, own_node: NodeProcess, tmp_path: Path
) -> None:
    """Its tasks have stored their rows. The log drops it before the query is back; the archive cuts in other places."""
    stream = Stream.create(own_node, "moved", segment_bytes=1 << 20)
    target = Stream.create(own_node, "moved-to", partitions=2)
    stream.fill(12, 2_000, width=400)
    frame = stream.stream(spark, startingOffsets="earliest", columns="value", splitBytes="3MiB")
    assert copying(frame, target, tmp_path).awaitTermination(PATIENCE_S)
    assert stored_numbers(own_node, target.name) == list(range(24_000))
    forget_commit(tmp_path, 0)
    assert archived(spark, stream, tmp_path / "cold") > 12_000
    assert copying(frame, target, tmp_path).awaitTermination(PATIENCE_S)
    assert stored_numbers(own_node, target.name) == list(range(24_000))


# --- the group ------------------------------------------------------------------------------------------------------


def test_position_and_lag_are_seen_in_the_command_line_and_the_metrics(sink: Sink) -> None:
    stream = sink.stream
    stream.fill(1, 30)
    sink.drain(group="seen", hold="2h", columns="partition,offset")
    stream.fill(1, 7)
    stream.fill(1, 4, partition=1)
    listed = call("group", "list", stream.name, "--url", stream.node.url, "--token", stream.node.token, "--json")
    assert listed.exit_code == 0, listed.output
    (group,) = json.loads(listed.stdout)["groups"]
    assert (group["group"], group["kind"], group["lag"], group["hold_s"]) == ("seen", "spark", 11, 7200)
    labels = f'group="seen",namespace="default",stream="{stream.name}",tenant="default"'
    assert metric(stream.node, f"flowmesh_group_lag_records{{{labels}}}") == 11
    sink.drain(group="seen", hold="2h", columns="partition,offset")
    assert metric(stream.node, f"flowmesh_group_lag_records{{{labels}}}") == 0


def metric(node: NodeProcess, series: str) -> float:
    request = urllib.request.Request(f"{node.http_url}/metrics", headers={"Authorization": f"Bearer {node.token}"})
    with urllib.request.urlopen(request) as answer:
        lines = answer.read().decode().splitlines()
    found = next((line for line in lines if line.startswith(series)), None)
    assert found is not None, [line for line in lines if line.startswith("flowmesh_group_lag")]
    return float(found.rpartition(" ")[2])
