"""Archiving against Spark's own writer of Parquet, in one session, in turn: `python -m benchmarks.spark_archive`.

The same rows are written three ways: by the archive job from the log, by `df.write.parquet` from the log, and by
`df.write.parquet` from Parquet, which is the fastest place that Spark can read them from.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flowmesh.spark
from flowmesh.assemble import open_local_log
from flowmesh.format import columns
from flowmesh.log.options import LogOptions
from flowmesh.spark.archive.job import ArchiveOptions, run_archive
from flowmesh.spark.archive.origin import log_origin

PARTITIONS = 4
BLOCK_ROWS = 1_000
VALUE_BYTES = 100
PIECE_BYTES = 64 * 1024 * 1024
Work = Callable[[], object]


def fill(directory: Path, rows: int) -> None:
    """Values of which a part repeats, as JSON does, and a part does not."""
    for partition in range(PARTITIONS):
        log = open_local_log(directory / str(partition), LogOptions(disk_reserve_bytes=0), create=f"bench/{partition}")
        noise = os.urandom(BLOCK_ROWS * 24).hex().encode()
        for base in range(0, rows // PARTITIONS, BLOCK_ROWS):
            values = [
                b'{"id": %010d, "user": "%s", "what": "' % (base + row, noise[row * 48 : row * 48 + 32])
                for row in range(BLOCK_ROWS)
            ]
            log.write([columns.encode([value.ljust(VALUE_BYTES, b"x") for value in values])])
            log.sync()
        log.close()


def timed(work: Work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_archive", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path, default=Path(), help="where to write (default: here)")
    choice = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="flowmesh-bench-", dir=choice.dir) as place:
        measure(Path(place), choice.rows, choice.rounds)
    return 0


def measure(place: Path, rows: int, rounds: int) -> None:
    source = place / "log"
    fill(source, rows)
    spark = flowmesh.spark.session("local[2]")
    ways = _ways(spark, source, place)
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, work in ways.items():
            for target in place.glob("out-*"):
                shutil.rmtree(target)
            os.sync()
            seconds = timed(work)
            if number:  # the first round warms all of them up
                samples[name].append(seconds)
        print(f"round {number} of {rounds}", file=sys.stderr)
    ours = samples["archive run"]
    for name, found in samples.items():
        ratio = statistics.median(theirs / mine for mine, theirs in zip(ours, found, strict=True))
        rate = rows / statistics.median(found) / 1e6
        print(f"{name:<36} {rate:6.2f} M records/s   archive / this: {ratio:5.2f}   {[round(s, 2) for s in found]}")
    spark.stop()


def _ways(spark: Any, source: Path, place: Path) -> dict[str, Work]:
    rows = ArchiveOptions(piece_bytes=PIECE_BYTES, include_open=True)
    names = "partition,offset,timestamp,key,value,headers"
    parts = [
        spark.read.format("flowmesh").option("dataDir", str(source / str(number))).option("columns", names).load()
        for number in range(PARTITIONS)
    ]
    live = parts[0]
    for part in parts[1:]:
        live = live.union(part)
    ready = place / "ready"
    live.write.parquet(str(ready))
    stored = spark.read.parquet(str(ready))
    origin = log_origin(source)
    return {
        "archive run": lambda: run_archive(spark, origin, str(place / "out-archive"), rows),
        "df.write.parquet, df of the log": lambda: live.write.parquet(str(place / "out-live")),
        "df.write.parquet, df of Parquet": lambda: stored.write.parquet(str(place / "out-stored")),
        "noop write, df of the log": lambda: live.write.format("noop").mode("overwrite").save(),
    }


if __name__ == "__main__":
    sys.exit(main())
