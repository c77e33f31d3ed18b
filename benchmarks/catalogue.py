"""All benchmarks, in the order of the table."""

from __future__ import annotations

from benchmarks import (
    appends,
    batches,
    memory,
    node_frames,
    node_http,
    node_sdk,
    reads,
    recoveries,
    spark_archive,
    spark_read,
    spark_write,
    verification,
)
from benchmarks.harness import Benchmark
from benchmarks.place import Place, Sizes

BENCHMARKS: tuple[Benchmark, ...] = (
    *appends.BENCHMARKS,
    *recoveries.BENCHMARKS,
    *verification.BENCHMARKS,
    *batches.BENCHMARKS,
    *reads.BENCHMARKS,
    *memory.BENCHMARKS,
    *node_frames.BENCHMARKS,
    *node_sdk.BENCHMARKS,
    *node_http.BENCHMARKS,
    *spark_read.BENCHMARKS,
    *spark_write.BENCHMARKS,
    *spark_archive.BENCHMARKS,
)


def need_bytes(chosen: list[Benchmark], sizes: Sizes) -> int:
    """What must be free before the first one starts: the greatest one, and the logs that are kept for several."""
    return max((benchmark.disk_bytes(sizes) for benchmark in chosen), default=0) + 2 * sizes.log_bytes


def require_space(place: Place, chosen: list[Benchmark]) -> None:
    place.require(need_bytes(chosen, place.sizes))
