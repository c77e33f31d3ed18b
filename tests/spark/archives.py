"""Logs with known records, archives of them, and every way to count what lies in one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

import flowmesh.spark
from flowmesh.archive.manifest import Manifest
from flowmesh.archive.store import LocalStore, latest
from flowmesh.assemble import open_local_log, read_local_log
from flowmesh.base.limits import KIB
from flowmesh.format import columns
from flowmesh.log.appender import Appender
from flowmesh.log.options import LogOptions
from flowmesh.spark.archive.job import ArchiveOptions, ArchiveReport, run_archive
from flowmesh.spark.archive.origin import log_origin, stream_origin
from flowmesh.spark.archive_group import GroupHolder
from flowmesh.spark.options import NodeAccess, Secret, StreamName

OPTIONS = LogOptions(segment_bytes=64 * KIB, disk_reserve_bytes=0)
SMALL = ArchiveOptions(piece_bytes=1024 * KIB)
ROWS = 50


def session() -> Any:
    """The one of this process, whoever made it."""
    from pyspark import SparkContext

    return flowmesh.spark.session(None if SparkContext._active_spark_context is not None else "local[2]")


@contextmanager
def written_log(directory: Path, blocks: int = 40) -> Iterator[Appender]:
    log = open_local_log(directory, OPTIONS, create="orders/0")
    fill(log, blocks)
    try:
        yield log
    finally:
        log.close()


def fill(log: Appender, blocks: int) -> None:
    """Blocks of records with everything that a record can have."""
    for _ in range(blocks):
        base = log.view.end_offset
        numbers = range(base, base + ROWS)
        log.write(
            [
                columns.encode(
                    [None if number % 7 == 0 else b"value-%d-" % number * 10 for number in numbers],
                    keys=[None if number % 5 == 0 else b"key-%d" % (number % 3) for number in numbers],
                    headers=[[(b"n", b"%d" % number)] * (number % 3) for number in numbers],
                    times_ns=[1_700_000_000_000_000_001 + 1_234_567 * number for number in numbers],
                )
            ]
        )
        log.sync()


def archive(directory: Path, cold: str | Path, options: ArchiveOptions = SMALL) -> ArchiveReport:
    return run_archive(session(), log_origin(directory), str(cold), options)


def archive_stream(
    spark: Any, url: str, token: str, data_dir: str | Path, name: str, cold: str | Path
) -> ArchiveReport:
    """All that a node has of a stream, also what stands in the open segment; the node is told."""
    stream = StreamName("default", "default", name)
    holder = GroupHolder(NodeAccess(url, Secret(token), None, None, 10**10), stream, str(cold), hold_s=3600)
    options = SMALL._replace(include_open=True)
    return run_archive(spark, stream_origin(data_dir, str(stream)), str(cold), options, holder=holder)


def manifest_of(cold: Path) -> Manifest:
    found = latest(LocalStore(str(cold)))
    assert found is not None
    return found


def log_rows(directory: Path) -> list[tuple[Any, ...]]:
    """What the log holds, by its own reader."""
    return [
        (record.offset, record.time_ns, record.key, record.value, tuple(record.headers))
        for block in read_local_log(directory).blocks()
        for record in columns.decode(block.batch).records()
    ]


def cold_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [
        (row["offset"], row["timestamp_ns"], row["key"], row["value"],
         tuple((header["key"].encode(), header["value"]) for header in row["headers"]))
        for row in table.sort_by("offset").to_pylist()
    ]  # fmt: skip


def by_manifest(cold: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(cold / file.name) for file in manifest_of(cold).files])


def by_directory(cold: Path) -> pa.Table:
    """As somebody reads it who has never heard of a manifest."""
    return pyarrow.dataset.dataset(cold, format="parquet").to_table()
