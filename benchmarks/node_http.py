"""HTTP appends, beside a route that does nothing, and in bulk beside what the SDK does over frames."""

from __future__ import annotations

import statistics

from benchmarks.harness import Benchmark, Result, Row, Unit, alternate
from benchmarks.node_frames import open_loop_note
from benchmarks.node_place import Ground, bare_server, ground
from benchmarks.place import Place
from flowmesh.base.limits import MIB

CONNECTIONS = 256
"""So many that one fsync is shared by enough requests. With few of them a slow disk is all that is measured."""
BULK_CONNECTIONS = 4
LINES = 10_000

SINGLE = Row("node, HTTP: one record for each POST, fsynced", "the same route doing nothing, Starlette on uvicorn", 0.6)
BULK = Row("node, HTTP: NDJSON in bulk, fsynced", "the SDK producer over frames, as above", 0.2)


def run_single(place: Place) -> list[Result]:
    count = place.sizes.node_posts
    with ground(place) as here, bare_server("starlette") as bare_port:
        same = {"token": here.node.token, "connections": CONNECTIONS, "stream": "posts", "count": count}
        here.stream("posts")
        samples = alternate(
            place.sizes.rounds,
            lambda: here.loader.seconds("posts", port=here.http_port, **same),
            lambda: here.loader.seconds("posts", port=bare_port, **same),
        )
        if here.end_offset("posts") != (place.sizes.rounds + 1) * count:
            raise ValueError("not all that was acknowledged is there, or more")
        rate = count / statistics.median(samples.subject) / 2
        note = open_loop_note(rate, _open_loop(here, rate, place.sizes.node_seconds))
        return [Result(SINGLE, samples, Unit.RECORDS, count, note)]


def _open_loop(here: Ground, rate: float, seconds: float) -> dict[str, float]:
    found: dict[str, float] = here.loader.ask(
        "http_open_loop",
        port=here.http_port,
        token=here.node.token,
        stream="posts",
        connections=CONNECTIONS,
        rate=rate,
        seconds=seconds,
    )
    return found


def run_bulk(place: Place) -> list[Result]:
    posts = max(place.sizes.node_records // LINES, 1)
    count = posts * LINES
    with ground(place) as here:
        here.stream("bulk")
        here.stream("beside")
        access = {"token": here.node.token}
        samples = alternate(
            place.sizes.rounds,
            lambda: here.loader.seconds(
                "bulk",
                **access,
                port=here.http_port,
                stream="bulk",
                connections=BULK_CONNECTIONS,
                count=posts,
                lines=LINES,
            ),
            lambda: here.loader.seconds("produce", **access, url=here.node.url, stream="beside", count=count),
        )
        if here.end_offset("bulk") != (place.sizes.rounds + 1) * count:
            raise ValueError("not all that was acknowledged is there, or more")
    return [Result(BULK, samples, Unit.RECORDS, count)]


BENCHMARKS = (
    Benchmark("node-http", (SINGLE,), run_single, lambda sizes: 2 * (sizes.rounds + 2) * sizes.node_posts * 256),
    Benchmark(
        "node-bulk",
        (BULK,),
        run_bulk,
        lambda sizes: 2 * (sizes.rounds + 1) * (sizes.node_records + LINES) * 110 + 64 * MIB,
    ),
)
