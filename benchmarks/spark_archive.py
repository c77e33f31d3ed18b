"""The archive: writing it beside Spark's own writer of Parquet, and verifying it with the log beside hashing alone."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Benchmark, Result, Row, Unit, alternate, timed
from benchmarks.place import Place
from benchmarks.spark_read import PARTITIONS, disk_bytes, records
from flowmesh.assemble import open_local_log
from flowmesh.base.limits import MIB
from flowmesh.format import columns
from flowmesh.log.options import LogOptions
from flowmesh.spark.archive.job import ArchiveOptions, ArchiveReport, run_archive
from flowmesh.spark.archive.origin import log_origin
from flowmesh.spark.archive.verify import verify_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARCHIVE = Row("Spark, archive run, records of 100 B", "`df.write.parquet` of the same rows, from Parquet", 0.9)
VERIFY = Row("Spark, log and archive verified", "`hashlib.sha256` alone over their files, one thread")
BLOCK_ROWS = 1_000
VALUE_BYTES = 100
_OPTIONS = ArchiveOptions(piece_bytes=64 * MIB, include_open=True)


class _History:
    """A log of several partitions, its archive, and its rows as Parquet, which is what Spark reads fastest."""

    def __init__(self, spark: SparkSession, folder: Path, count: int) -> None:
        self._spark = spark
        self._log = folder / "log"
        self._cold = folder / "cold"
        self._out = folder / "out"
        self._count = count
        _fill(self._log, count)
        rows = self._live(0)
        for partition in range(1, PARTITIONS):
            rows = rows.union(self._live(partition))
        rows.write.parquet(str(folder / "rows"))
        self._rows = spark.read.parquet(str(folder / "rows"))

    def _live(self, partition: int) -> DataFrame:
        names = "partition,offset,timestamp,key,value,headers"
        options = {"dataDir": str(self._log / str(partition)), "columns": names}
        return self._spark.read.format("flowmesh").options(**options).load()

    def _archived(self) -> ArchiveReport:
        return run_archive(self._spark, log_origin(self._log), str(self._cold), _OPTIONS)

    def archive(self) -> float:
        shutil.rmtree(self._cold, ignore_errors=True)
        os.sync()
        reports: list[ArchiveReport] = []
        seconds = timed(lambda: reports.append(self._archived()))
        if reports[0].records != self._count:
            raise ValueError(f"{reports[0].records} records were archived, not {self._count}")
        return seconds

    def parquet(self) -> float:
        shutil.rmtree(self._out, ignore_errors=True)
        os.sync()
        return timed(lambda: self._rows.write.parquet(str(self._out)))

    def verify(self) -> float:
        def work() -> None:
            report = verify_history(self._spark, log_origin(self._log), str(self._cold))
            if not report.sound or report.records != self._count:
                raise ValueError("the history is not sound")

        return timed(work)

    def hash(self) -> float:
        def work() -> None:
            for path in (*self._log.rglob("segment-*.log"), *self._cold.rglob("*.parquet")):
                with path.open("rb") as file:
                    hashlib.file_digest(file, "sha256")

        return timed(work)


def _fill(directory: Path, count: int) -> None:
    """Values of which a part repeats, as JSON does, and a part does not."""
    for partition in range(PARTITIONS):
        log = open_local_log(directory / str(partition), LogOptions(disk_reserve_bytes=0), create=f"bench/{partition}")
        noise = os.urandom(BLOCK_ROWS * 24).hex().encode()
        for base in range(0, count // PARTITIONS, BLOCK_ROWS):
            values = [
                b'{"id": %010d, "user": "%s", "what": "' % (base + row, noise[row * 48 : row * 48 + 32])
                for row in range(BLOCK_ROWS)
            ]
            log.write([columns.encode([value.ljust(VALUE_BYTES, b"x") for value in values])])
        log.sync()
        log.close()


def run(place: Place) -> list[Result]:
    import flowmesh.spark

    count, rounds = records(place.sizes), place.sizes.rounds
    spark = flowmesh.spark.session("local[2]")
    try:
        with place.folder("archive") as folder:
            history = _History(spark, folder, count)
            written = alternate(rounds, history.archive, history.parquet)
            verified = alternate(rounds, history.verify, history.hash)
    finally:
        spark.stop()
    return [Result(ARCHIVE, written, Unit.RECORDS, count), Result(VERIFY, verified, Unit.RECORDS, count)]


BENCHMARKS = (Benchmark("spark-archive", (ARCHIVE, VERIFY), run, disk_bytes),)
