"""`spark.read.format("flowmesh")` against a real node and its files: columns, bounds, filters, typed values, errors."""

from __future__ import annotations

import datetime
import shutil
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from flowmesh.assemble import open_local_log
from flowmesh.client import connect_blocking
from flowmesh.format import columns
from flowmesh.testing import NodeProcess
from tests.spark.streams import Stream

T0_NS = 1_700_000_000_000_000_000
MILLISECOND_NS = 1_000_000
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def values(frame: DataFrame) -> list[bytes]:
    return [bytes(row.value) for row in frame.select("value").collect()]


def failure(frame: DataFrame) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 (which of Spark's classes it is depends on where it came from)
        frame.collect()
    return str(caught.value)


@pytest.mark.parametrize("way", ["network", "files", "both"])
def test_every_column_is_there_by_every_way(spark: SparkSession, stream: Stream, way: str) -> None:
    times = [T0_NS, T0_NS + 1_234_567]
    headers = [[(b"h", b"1"), (b"h", b"2")], []]
    stream.append([b"a", None], partition=1, keys=[None, b"k"], headers=headers, times_ns=times)
    options = {"network": stream.access, "files": stream.files, "both": stream.access | stream.files}[way]
    frame = stream.reading(spark, **options)
    assert frame.columns == [
        "tenant", "namespace", "stream", "partition", "offset", "timestamp", "key", "value", "headers", "block_id",
    ]  # fmt: skip
    first, second = frame.orderBy("offset").collect()
    assert (first.tenant, first.namespace, first.stream) == ("default", "default", stream.name)
    assert (first.partition, first.offset, first.key, bytes(first.value)) == (1, 0, None, b"a")
    assert (second.offset, bytes(second.key), second.value, second.headers) == (1, b"k", None, [])
    assert [(header.key, bytes(header.value)) for header in first.headers] == [("h", b"1"), ("h", b"2")]
    seconds, rest = divmod(times[1], 1_000_000_000)
    shown = datetime.datetime.fromtimestamp(seconds).replace(microsecond=rest // 1000)
    assert second.timestamp == shown
    with connect_blocking(stream.node.url, token=stream.node.token) as client:
        header = client.stream(stream.name).read(0, partition=1)[0].batch.header
    assert header.count == 2
    segment, _, block = first.block_id.partition(".")
    assert (len(segment), len(block), second.block_id) == (16, 64, first.block_id)


def test_a_directory_without_a_node_is_read(spark: SparkSession, own_node: NodeProcess, tmp_path: Path) -> None:
    stream = Stream.create(own_node, "left", partitions=2)
    stream.fill(3, 50, partition=0)
    stream.fill(2, 50, partition=1)
    by_network = stream.read(spark).select("partition", "offset", "value", "block_id").collect()
    own_node.kill()
    copy = shutil.copytree(own_node.data_dir, tmp_path / "copy")
    found = stream.reading(spark, dataDir=copy, verify="true").select("partition", "offset", "value", "block_id")
    assert sorted(found.collect()) == sorted(by_network)
    assert len(by_network) == 250
    own_node.start()


def test_the_directory_of_one_log_is_read(spark: SparkSession, tmp_path: Path) -> None:
    with closing(open_local_log(tmp_path / "bare", create="bare")) as log:
        log.write([columns.encode([b"x", b"y"])])
        log.sync()
    found = spark.read.format("flowmesh").option("dataDir", str(tmp_path / "bare")).load()
    assert [(row.stream, row.partition, row.offset) for row in found.collect()] == [("bare", 0, 0), ("bare", 0, 1)]


def test_columns_are_pruned_in_the_order_asked_for(spark: SparkSession, stream: Stream) -> None:
    stream.fill(2, 10)
    frame = stream.read(spark, columns="value, offset")
    assert frame.columns == ["value", "offset"]
    assert sorted(row.offset for row in frame.collect()) == list(range(20))
    assert stream.read(spark, columns="partition").distinct().collect()[0].partition == 0
    by_schema = spark.read.schema("offset BIGINT, key BINARY").format("flowmesh").options(**stream.access)
    assert by_schema.load(stream.name).columns == ["offset", "key"]


def test_an_empty_stream_has_columns_and_no_rows(spark: SparkSession, stream: Stream) -> None:
    assert stream.read(spark).collect() == []
    assert stream.read(spark, valueSchema="a INT").count() == 0


def test_compressed_batches_and_small_blocks_are_put_together(spark: SparkSession, stream: Stream) -> None:
    for number in range(30):
        stream.append([b"%d" % number] * 3, compress=number % 2 == 0)
    rows = stream.read(spark, columns="offset,value").orderBy("offset").collect()
    assert [(row.offset, bytes(row.value)) for row in rows] == [(n, b"%d" % (n // 3)) for n in range(90)]


# --- bounds -------------------------------------------------------------------------------------------------------


def test_partial_maps_leave_the_rest_at_its_default(spark: SparkSession, stream: Stream) -> None:
    stream.fill(2, 10, partition=0)
    stream.fill(2, 10, partition=1)

    def spans(**options: Any) -> dict[int, tuple[int, int]]:
        frame = stream.read(spark, columns="partition,offset", **options)
        found = (
            frame.groupBy("partition")
            .agg(functions.min("offset").alias("low"), functions.max("offset").alias("high"))
            .collect()
        )
        return {row.partition: (row.low, row.high) for row in found}

    assert spans(startingOffsets='{"0": 12}') == {0: (12, 19), 1: (0, 19)}
    assert spans(endingOffsets='{"1": 5}', startingOffsets='{"0": "latest"}') == {1: (0, 4)}
    assert spans(partitions="1", startingOffsets='{"1": 3}') == {1: (3, 19)}


def test_times_bound_a_read(spark: SparkSession, stream: Stream) -> None:
    for block in range(4):
        base = T0_NS + block * 10 * MILLISECOND_NS
        stream.append([b"x"] * 10, times_ns=[base + row * MILLISECOND_NS for row in range(10)])
    frame = stream.read(
        spark,
        columns="offset",
        startingTimestamp=str(T0_NS + 15 * MILLISECOND_NS),
        endingTimestamp='{"0": "2023-11-14T22:13:20.025Z"}',
    )
    assert sorted(row.offset for row in frame.collect()) == list(range(15, 25))


def test_filters_give_the_same_rows_with_and_without_push_down(spark: SparkSession, stream: Stream) -> None:
    """Also where producers gave times in no order at all."""
    for block in range(6):
        mixed = [T0_NS + ((block * 37 + row * 11) % 60) * MILLISECOND_NS for row in range(10)]
        stream.append([b"x"] * 10, partition=block % 2, times_ns=mixed)
    cases = [
        "offset >= 3 AND offset < 17",
        "offset = 4 OR offset = 5",
        "partition = 1",
        "partition IN (0, 7) AND offset > 25",
        "timestamp >= '2023-11-14T22:13:20.010Z' AND timestamp < '2023-11-14T22:13:20.030Z'",
        "timestamp = '2023-11-14T22:13:20.021Z'",
        "partition = 0 AND partition = 1",
        "NOT (offset <= 20)",
        "offset IS NOT NULL AND key IS NULL AND offset < 2",
    ]
    frame = stream.read(spark, columns="partition,offset,timestamp,key")
    pushed = [sorted(frame.where(case).select("partition", "offset").collect()) for case in cases]
    spark.conf.set(PUSH_DOWN, "false")
    try:
        plain = stream.read(spark, columns="partition,offset,timestamp,key")
        whole = [sorted(plain.where(case).select("partition", "offset").collect()) for case in cases]
    finally:
        spark.conf.set(PUSH_DOWN, "true")
    assert pushed == whole
    assert [len(rows) for rows in whole][:2] == [28, 4]


# --- typed values -------------------------------------------------------------------------------------------------


def test_a_schema_gives_typed_columns(spark: SparkSession, stream: Stream) -> None:
    good = b'{"id":7,"ok":true,"when":"2026-01-02T03:04:05Z","day":"2026-01-02","in":{"x":[1.5,2]},"more":"ignored"}'
    stream.append([good, b'{"id":"seven"}', None, b"not json", b'{"id":8}'])
    ddl = "id BIGINT, ok BOOLEAN, when TIMESTAMP, day DATE, in STRUCT<x: ARRAY<DOUBLE>>"
    frame = stream.read(spark, valueSchema=ddl)
    assert frame.columns == [
        "partition", "offset", "timestamp", "key", "id", "ok", "when", "day", "in", "_error",
    ]  # fmt: skip
    rows = frame.orderBy("offset").collect()
    assert [row.id for row in rows] == [7, None, None, None, 8]
    assert (rows[0].ok, rows[0]["in"].x, str(rows[0].day)) == (True, [1.5, 2.0], "2026-01-02")
    assert rows[0].when is not None
    assert [bool(row._error) for row in rows] == [False, True, False, True, False]
    assert "id" in rows[1]._error
    narrow = stream.read(spark, valueSchema=ddl, columns="ok,offset")
    assert min(narrow.collect(), key=lambda row: row.offset).asDict() == {"ok": True, "offset": 0}


def test_typed_columns_may_stand_in_a_struct(spark: SparkSession, stream: Stream) -> None:
    stream.append([b'{"offset":5}', b"[]"])
    message = refused(stream, spark, valueSchema="offset INT")
    assert "FLOWMESH_BAD_SCHEMA" in message
    assert "valueColumn" in message
    frame = stream.read(spark, valueSchema="offset INT", valueColumn="data", columns="offset,data,_error")
    first, second = frame.orderBy("offset").collect()
    assert (first.offset, first.data.offset, first._error) == (0, 5, None)
    assert (second.data, bool(second._error)) == (None, True)


def test_a_bad_record_may_fail_the_query(spark: SparkSession, stream: Stream) -> None:
    stream.append([b'{"a":1}', b'{"a":"x"}'])
    message = failure(stream.read(spark, valueSchema="a INT", badRecords="fail"))
    assert "FLOWMESH_BAD_RECORD" in message
    assert "partition 0, offset 1" in message
    assert "badRecords" in message


def refused(stream: Stream, spark: SparkSession, **options: Any) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 (Spark wraps it)
        stream.read(spark, **options).collect()
    return str(caught.value)


# --- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"startingOffset": "earliest"}, ["FLOWMESH_UNKNOWN_OPTION", "'startingOffsets'"]),
        ({"badRecords": "maybe"}, ["FLOWMESH_BAD_OPTION", "badRecords", "null, fail"]),
        ({"columns": "valeu"}, ["FLOWMESH_BAD_OPTION", "columns", "valeu"]),
        ({"group": "g"}, ["FLOWMESH_BAD_OPTION", "group", "a batch"]),
        ({"startingOffsets": '{"9": 1}'}, ["FLOWMESH_BAD_OPTION", "startingOffsets", "partition 9"]),
        ({"valueSchema": "a INT NOT NULL"}, ["FLOWMESH_BAD_OPTION", "valueSchema"]),
        ({"valueSchema": "a BINARY"}, ["FLOWMESH_BAD_SCHEMA", "a is binary"]),
        ({"stream": "no/such/stream", "path": "no/such/stream"}, ["FLOWMESH_STREAM_NOT_FOUND", "no/such/stream"]),
        ({"token": "aaaaaaaaaaaaaaaa.wrong-secret"}, ["FLOWMESH_TOKEN_REFUSED", "tokenFile"]),
        ({"endingOffsets": '{"0": 500}'}, ["FLOWMESH_DATA_LOST", "[10, 500)"]),
    ],
)
def test_an_error_names_the_option_that_mends_it(
    spark: SparkSession, node: NodeProcess, options: dict[str, str], expected: list[str]
) -> None:
    stream = Stream(node, "errors")
    with connect_blocking(node.url, token=node.token) as client:
        if "errors" not in client.list_streams():
            client.create_stream("errors")
            stream.fill(1, 10)
    with pytest.raises(Exception) as caught:  # noqa: PT011 (Spark wraps it)
        spark.read.format("flowmesh").options(**stream.access | {"stream": "errors"} | options).load().collect()
    for part in expected:
        assert part in str(caught.value)
    assert node.token not in str(caught.value)
    assert "wrong-secret" not in str(caught.value)


def test_no_token_and_no_node_are_told_apart(spark: SparkSession, own_node: NodeProcess) -> None:
    stream = Stream.create(own_node, "away")
    assert "FLOWMESH_TOKEN_REFUSED" in failure(stream.reading(spark, url=own_node.url))
    own_node.stop()
    message = failure(stream.read(spark, reconnectTimeout="1s"))
    own_node.start()
    assert "FLOWMESH_NODE_UNREACHABLE" in message
    assert "reconnectTimeout" in message


def test_what_retention_took_is_named_or_skipped(spark: SparkSession, own_node: NodeProcess) -> None:
    stream = Stream.create(own_node, "trimmed", segment_bytes=64 * 1024)
    stream.fill(8, 200, width=200)
    trim(own_node, stream)
    frame = stream.read(spark, columns="offset", startingOffsets='{"0": 3}')
    message = failure(frame)
    start = stream.read(spark, columns="offset").agg(functions.min("offset")).collect()[0][0]
    assert start > 3
    assert f"stream default/default/trimmed, partition 0: offsets [3, {start}) are gone" in message
    assert "onDataLoss" in message
    left = stream.read(spark, columns="offset", startingOffsets='{"0": 3}', onDataLoss="skip")
    assert left.agg(functions.min("offset"), functions.max("offset")).collect()[0] == (start, 1599)


def trim(node: NodeProcess, stream: Stream) -> None:
    """Returns when retention has left little."""
    with connect_blocking(node.url, token=node.token) as client:
        handle = client.stream(stream.name)
        handle.alter(retention_bytes=100_000)
        deadline = time.monotonic() + 60
        while handle.describe().partitions[0].start_offset <= 10:
            assert time.monotonic() < deadline, "nothing was trimmed"
            time.sleep(0.05)


def test_the_token_stays_out_of_plans_and_values(spark: SparkSession, stream: Stream) -> None:
    frame = stream.read(spark)
    plan = frame._jdf.queryExecution().toString()
    assert stream.node.token.partition(".")[2] not in plan


def test_a_token_file_serves_as_well(spark: SparkSession, stream: Stream, tmp_path: Path) -> None:
    stream.fill(1, 5)
    (tmp_path / "token").write_text(stream.node.token + "\n")
    found = stream.reading(spark, url=stream.node.url, tokenFile=str(tmp_path / "token"))
    assert found.count() == 5
