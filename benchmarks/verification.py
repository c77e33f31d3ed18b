"""Verifying a whole log with the host's threads, beside one thread that hashes its files and checks nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

from benchmarks.harness import Benchmark, Result, Row, Unit, alternate, timed
from benchmarks.place import BLOCK_BYTES, Place, segment_files
from flowmesh.assemble import verify_local_log

VERIFY = Row("verify 1 GiB", "`hashlib.sha256` alone over it, one thread", 0.6)


def run(place: Place) -> list[Result]:
    directory = place.sound_log(BLOCK_BYTES)
    files = segment_files(directory)

    def ours() -> None:
        if not verify_local_log(directory).sound:
            raise ValueError("the log of the benchmark is damaged")

    samples = alternate(place.sizes.rounds, lambda: timed(ours), lambda: timed(lambda: _hash(files)))
    return [Result(VERIFY, samples, Unit.BYTES, sum(path.stat().st_size for path in files))]


def _hash(files: list[Path]) -> None:
    for path in files:
        with path.open("rb", buffering=0) as file:
            hashlib.file_digest(file, "sha256")


BENCHMARKS = (Benchmark("verify", (VERIFY,), run, lambda sizes: sizes.log_bytes),)
