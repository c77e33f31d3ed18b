"""Records to bytes and to Arrow, in memory alone."""

from __future__ import annotations

import os
from collections.abc import Callable

from benchmarks.harness import Benchmark, Result, Row, Samples, Unit, alternate, median_of, nothing_on_disk
from benchmarks.place import Place
from flowmesh.format import arrow, columns

RECORDS = 10_000
ARROW_SECONDS = 30e-6

ENCODE = Row("encode 10,000 records of 100 B into a batch", '`b"".join` of the values alone', 0.1)
ARROW_VALUES = Row("batch to Arrow, 10,000 records, values only", "30 µs", 1.0)
ARROW_ALL = Row("batch to Arrow, 10,000 records, all columns", "30 µs", 1.0)
ARROW_FULL = Row("the same with keys, times and headers to map", "30 µs", 1.0)


def run_encode(place: Place) -> list[Result]:
    values, repeats = [os.urandom(100) for _ in range(RECORDS)], place.sizes.repeats
    samples = alternate(
        place.sizes.rounds,
        lambda: median_of(repeats, lambda: columns.encode(values)),
        lambda: median_of(repeats, lambda: b"".join(values)),
    )
    return [Result(ENCODE, samples, Unit.RECORDS, RECORDS)]


def run_arrow(place: Place) -> list[Result]:
    """All five columns of a batch that has only values, and of one that has everything a record may have."""
    values = [os.urandom(100) for _ in range(RECORDS)]
    plain = columns.encode(values)
    full = columns.encode(
        values,
        keys=[b"key-%d" % row for row in range(RECORDS)],
        times_ns=list(range(RECORDS)),
        headers=[((b"trace", b"%d" % row),) for row in range(RECORDS)],
    )
    repeats = 10 * place.sizes.repeats

    def of(row: Row, work: Callable[[], object]) -> Result:
        median_of(repeats, work)
        ours = [median_of(repeats, work) for _ in range(place.sizes.rounds)]
        return Result(row, Samples(ours, [ARROW_SECONDS] * len(ours)), Unit.OPERATIONS)

    return [
        of(ARROW_VALUES, lambda: arrow.to_arrow(plain, ("value",))),
        of(ARROW_ALL, lambda: arrow.to_arrow(plain)),
        of(ARROW_FULL, lambda: arrow.to_arrow(full)),
    ]


BENCHMARKS = (
    Benchmark("encode", (ENCODE,), run_encode, nothing_on_disk),
    Benchmark("arrow", (ARROW_VALUES, ARROW_ALL, ARROW_FULL), run_arrow, nothing_on_disk),
)
