"""Writing with `format("flowmesh")`: real Spark, a real node, and what the client then reads."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as sf

from flowmesh.client import Record, connect_blocking
from flowmesh.spark import session
from flowmesh.streams.partitioner import partition_of
from flowmesh.testing import NodeProcess

ROW_BYTES = 100


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return session("local[2]", conf={"spark.sql.shuffle.partitions": "3"})


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("sink") / "data") as running:
        yield running


def created(node: NodeProcess, name: str, partitions: int = 1) -> str:
    with connect_blocking(node.url, token=node.token) as client:
        client.create_stream(name, partitions=partitions)
    return name


def records(node: NodeProcess, name: str) -> list[list[Record]]:
    """Of each partition."""
    found: list[list[Record]] = []
    with connect_blocking(node.url, token=node.token) as client:
        stream = client.stream(name)
        for facts in stream.describe().partitions:
            found.append([])
            offset = facts.start_offset
            while offset < facts.end_offset:
                for batch in stream.read(offset, partition=facts.partition):
                    found[-1] += batch.records()
                    offset = batch.end_offset
    return found


def numbers(node: NodeProcess, name: str) -> list[int]:
    return sorted(int(record.value or b"-1") for partition in records(node, name) for record in partition)


def writer(rows: DataFrame, node: NodeProcess, **options: str) -> DataFrameWriter:
    made = rows.write.format("flowmesh").mode("append").option("url", node.url).option("token", node.token)
    return made.options(**options)


def numbered(rows: DataFrame) -> DataFrame:
    return rows.select(sf.lpad(sf.col("id").cast("string"), ROW_BYTES, "0").alias("value"))


# --- batches --------------------------------------------------------------------------------------------------------


def test_every_column_arrives_as_it_was(spark: SparkSession, node: NodeProcess) -> None:
    name = created(node, "columns")
    moment = datetime.datetime(2026, 1, 1, 0, 0, 1, 5, tzinfo=datetime.UTC)
    rows = [
        (b"one", "k", [("a", b"1"), ("a", b"2")], moment),
        (None, None, [], moment),
        (b"", "", None, moment + datetime.timedelta(days=1)),
    ]
    schema = "value binary, key string, headers array<struct<key: string, value: binary>>, timestamp timestamp"
    writer(spark.createDataFrame(rows, schema).coalesce(1), node).save(name)
    ns = 1_767_225_601_000_005_000
    assert records(node, name) == [
        [
            Record(0, ns, b"k", b"one", ((b"a", b"1"), (b"a", b"2"))),
            Record(1, ns, None, None, ()),
            Record(2, ns + 86_400_000_000_000, b"", b"", ()),
        ]
    ]


def test_keys_choose_partitions_as_all_other_clients_do(spark: SparkSession, node: NodeProcess) -> None:
    name = created(node, "keyed", 5)
    rows = spark.range(3000).select(
        sf.col("id").cast("string").alias("value"), sf.concat(sf.lit("k"), "id").alias("key")
    )
    writer(rows, node, compression="zstd").save(f"default/default/{name}")
    found = records(node, name)
    assert numbers(node, name) == list(range(3000))
    assert {partition_of(record.key or b"", 5) for record in found[3]} == {3}
    assert all(partition_of(record.key or b"", 5) == at for at, part in enumerate(found) for record in part)


def test_a_partition_that_is_named_comes_before_the_key(spark: SparkSession, node: NodeProcess) -> None:
    name = created(node, "placed", 3)
    rows = spark.range(90).select(
        sf.col("id").cast("string").alias("value"),
        sf.lit("same").alias("key"),
        sf.when(sf.col("id") < 60, (sf.col("id") % 2).cast("int")).alias("partition"),
    )
    writer(rows, node).save(name)
    found = [{int(record.value or b"") for record in part} for part in records(node, name)]
    assert found[0] >= set(range(0, 60, 2))
    assert found[1] >= set(range(1, 60, 2))
    assert found[partition_of(b"same", 3)] >= set(range(60, 90))
    assert numbers(node, name) == list(range(90))


def test_other_columns_become_json(spark: SparkSession, node: NodeProcess) -> None:
    name = created(node, "json")
    rows = spark.createDataFrame(
        [(1, 'a"b', 0.5, True, "k1"), (2, None, None, None, "k2")], "n long, t string, x double, b boolean, key string"
    )
    writer(rows.coalesce(1), node, valueFormat="json").save(name)
    (found,) = records(node, name)
    assert [record.key for record in found] == [b"k1", b"k2"]
    assert [msgspec.json.decode(record.value or b"") for record in found] == [
        {"n": 1, "t": 'a"b', "x": 0.5, "b": True},
        {"n": 2, "t": None, "x": None, "b": None},
    ]


def test_a_write_under_the_same_name_is_stored_once(spark: SparkSession, node: NodeProcess) -> None:
    name = created(node, "named")
    rows = numbered(spark.range(30_000).repartition(2))
    for _ in range(2):
        writer(rows, node, writeId="2026-11-19").save(name)
    assert numbers(node, name) == list(range(30_000))
    writer(rows, node).save(name)
    assert len(numbers(node, name)) == 60_000


@pytest.mark.parametrize(
    "columns, options, words",
    [
        (["id"], {}, ["FLOWMESH_BAD_SCHEMA", "'id'", "value (binary or string)", "valueFormat"]),
        (["id as value"], {}, ["FLOWMESH_BAD_SCHEMA", "'value' is bigint", "binary or string"]),
        (["'x' as key"], {}, ["FLOWMESH_BAD_SCHEMA", "no column 'value'"]),
        (["'x' as value"], {"valueFromat": "json"}, ["FLOWMESH_UNKNOWN_OPTION", "valueFormat"]),
        (["'x' as value"], {"splitBytes": "1MiB"}, ["FLOWMESH_UNKNOWN_OPTION", "no meaning here"]),
        (["'x' as value"], {"token": "no.token"}, ["FLOWMESH_TOKEN_REFUSED", "tokenFile"]),
        (["'x' as value", "4 as partition"], {}, ["FLOWMESH_BAD_RECORD", "'partition'", "it is 4", "0 to 0"]),
        (["'x' as value", "cast(null as timestamp) as timestamp"], {}, ["FLOWMESH_BAD_RECORD", "'timestamp'", "null"]),
        (["repeat('x', 17000000) as value"], {}, ["FLOWMESH_BAD_RECORD", "'value'", "17000000", "16777216"]),
    ],
)
def test_what_cannot_be_written_is_refused_with_the_reason(
    spark: SparkSession, node: NodeProcess, columns: list[str], options: dict[str, str], words: list[str]
) -> None:
    with connect_blocking(node.url, token=node.token) as client:
        if "refused" not in client.list_streams():
            client.create_stream("refused")
    with pytest.raises(PySparkException) as raised:
        writer(spark.range(1).selectExpr(*columns), node, **options).save("refused")
    missing = [word for word in words if word not in str(raised.value)]
    assert missing == [], str(raised.value)
    assert records(node, "refused") == [[]]


def test_a_stream_is_never_overwritten_and_has_to_be_there(spark: SparkSession, node: NodeProcess) -> None:
    rows = spark.range(1).selectExpr("'x' as value")
    with pytest.raises(PySparkException, match="only ever appended to"):
        writer(rows, node).mode("overwrite").save(created(node, "kept"))
    with pytest.raises(PySparkException, match="FLOWMESH_STREAM_NOT_FOUND"):
        writer(rows, node).save("not-there")


# --- queries --------------------------------------------------------------------------------------------------------


def query(spark: SparkSession, node: NodeProcess, folder: Path, name: str, *, shuffled: bool = False) -> None:
    """Runs over all files, one in a micro-batch, to the end."""
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(folder / "files"))
    if shuffled:
        rows = rows.repartition(3)
    (
        numbered(rows)
        .writeStream.format("flowmesh")
        .option("url", node.url)
        .option("token", node.token)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(name)
        .awaitTermination()
    )


def forget_commit(folder: Path, batch: int) -> None:
    """As if the driver had died before it could say that this micro-batch is done."""
    (folder / "checkpoint" / "commits" / str(batch)).unlink()
    (folder / "checkpoint" / "commits" / f".{batch}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_micro_batch_that_comes_again_adds_nothing(
    spark: SparkSession, node: NodeProcess, tmp_path: Path, shuffled: bool
) -> None:
    """Of more batches for each task than a node remembers."""
    name = created(node, f"again-{int(shuffled)}", 2)
    spark.range(0, 140_000, numPartitions=2).write.parquet(str(tmp_path / "files"))
    query(spark, node, tmp_path, name, shuffled=shuffled)
    assert numbers(node, name) == list(range(140_000))
    forget_commit(tmp_path, 1)
    spark.range(140_000, 150_000, numPartitions=1).write.mode("append").parquet(str(tmp_path / "files"))
    query(spark, node, tmp_path, name, shuffled=shuffled)
    assert numbers(node, name) == list(range(150_000))


def test_a_query_goes_on_over_the_death_of_its_node(spark: SparkSession, tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        name = created(node, "restarted", 2)
        rows = (
            spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2000).option("numPartitions", 2).load()
        )
        running = (
            numbered(rows.withColumnRenamed("value", "id"))
            .writeStream.format("flowmesh")
            .option("url", node.url)
            .option("token", node.token)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start(name)
        )
        for _ in range(2):
            before = running.lastProgress["batchId"] if running.lastProgress else -1
            while running.isActive and (running.lastProgress or {"batchId": -1})["batchId"] < before + 3:
                time.sleep(0.05)
            node.kill()
            node.start()
        running.awaitTermination(2)
        assert running.exception() is None
        assert running.lastProgress is not None
        finished = 2000 * (running.lastProgress["batchId"] + 1)
        running.stop()  # in the middle of a micro-batch, of which a part may be there
        found = numbers(node, name)
        assert finished >= 12_000
        assert found[:finished] == list(range(finished))
        assert len(set(found)) == len(found)
