"""The SDK against a node, beside the least that the same records cost without one: encoding, and reading the files."""

from __future__ import annotations

from benchmarks.harness import Benchmark, Result, Row, Unit, alternate
from benchmarks.node_place import ground
from benchmarks.place import Place
from flowmesh.base.limits import MIB

PRODUCER = Row("node, SDK producer, 100 B records in batches, fsynced", "encoding the same batches", 0.15)
CONSUMER = Row("node, SDK consumer, columns", "reading the log directly, the same columns", 0.3)


def run(place: Place) -> list[Result]:
    count = place.sizes.node_records
    with ground(place) as here:
        where = {"url": here.node.url, "token": here.node.token, "stream": "bulk"}
        here.stream("bulk")
        producing = alternate(
            place.sizes.rounds,
            lambda: here.loader.seconds("produce", **where, count=count),
            lambda: here.loader.seconds("encode", count=count),
        )
        stored = here.end_offset("bulk")
        if stored != (place.sizes.rounds + 1) * (count + 1):
            raise ValueError("not all that was acknowledged is there, or more")
        consuming = alternate(
            place.sizes.rounds,
            lambda: here.loader.seconds("consume", **where),
            lambda: here.loader.seconds("read_log", directory=str(here.log_directory("bulk"))),
        )
    return [
        Result(PRODUCER, producing, Unit.RECORDS, count),
        Result(CONSUMER, consuming, Unit.RECORDS, stored),
    ]


BENCHMARKS = (
    Benchmark(
        "node-sdk",
        (PRODUCER, CONSUMER),
        run,
        lambda sizes: (sizes.rounds + 1) * sizes.node_records * 110 + 64 * MIB,
    ),
)
