"""Appends over frames: many in flight beside a server that only echoes, and one in flight beside one fsync."""

from __future__ import annotations

import statistics

from benchmarks.harness import Benchmark, Result, Row, Unit, alternate
from benchmarks.node_place import Ground, bare_server, ground
from benchmarks.place import Place, Sizes
from flowmesh.base.limits import MIB

WINDOW = 1_000
_ECHO_REPEATS = 5
"""The echo is so much faster that one pass would be over before it could be measured."""
_ECHO = "a bare uvloop server that echoes the same frames"

PIPELINED = Row("node, frames: single appends of 100 B, 1,000 in flight, fsynced", _ECHO, 0.05)
MERGED = Row("the same, answers merged as the client allows", _ECHO, aim=0.15)
ALONE = Row(
    "node, frames: one append in flight, p50 (0.4 is 2.5 times as long)", "one `pwrite` + `fdatasync`, p50", 0.4
)


def run_pipelined(place: Place) -> list[Result]:
    with ground(place) as here, bare_server("echo") as echo_port:
        here.stream("singles")
        results = [_beside_echo(here, place.sizes, echo_port, row) for row in (PIPELINED, MERGED)]
        wanted = 2 * (place.sizes.rounds + 1) * place.sizes.node_appends
        if here.end_offset("singles") != wanted:
            raise ValueError("not all that was acknowledged is there")
        return [_with_notes(here, place.sizes, results[0]), results[1]]


def _beside_echo(here: Ground, sizes: Sizes, echo_port: int, row: Row) -> Result:
    count = sizes.node_appends
    same = {"stream": "singles", "count": count, "window": WINDOW, "merged": row is MERGED}

    def ours() -> float:
        return here.loader.seconds("pipelined", port=here.frames_port, token=here.node.token, **same)

    def theirs() -> float:
        # Echoed requests are no replies, and are counted by their lengths alone.
        echo = {**same, "merged": False, "repeats": _ECHO_REPEATS}
        return here.loader.seconds("pipelined", port=echo_port, token=None, **echo)

    return Result(row, alternate(sizes.rounds, ours, theirs), Unit.RECORDS, count)


def _with_notes(here: Ground, sizes: Sizes, result: Result) -> Result:
    """Adds how long appends take when they come at half of the measured rate, and what the disk allows."""
    here.stream("steady")
    rate = result.volume / statistics.median(result.samples.subject) / 2
    found = here.loader.ask(
        "frames_open_loop",
        port=here.frames_port,
        token=here.node.token,
        stream="steady",
        rate=rate,
        seconds=sizes.node_seconds,
    )
    one_sync = here.loader.seconds("plain_sync", directory=str(here.node.data_dir.parent), count=sizes.appends)
    most = (
        f"a write and fdatasync alone: p50 {one_sync * 1e3:,.2f} ms, so no more than {WINDOW / one_sync:,.0f} a second"
    )
    note = f"{open_loop_note(rate, found)}; {most}"
    return Result(result.row, result.samples, result.unit, result.volume, note)


def open_loop_note(rate: float, found: dict[str, float]) -> str:
    told = ", ".join(f"{name} {seconds * 1e3:,.1f} ms" for name, seconds in found.items())
    return f"open loop at half of that, {rate:,.0f} a second: {told}"


def run_alone(place: Place) -> list[Result]:
    with ground(place) as here:
        here.stream("alone")
        count, directory = place.sizes.appends, str(here.node.data_dir.parent)
        samples = alternate(
            place.sizes.rounds,
            lambda: here.loader.seconds(
                "alone", port=here.frames_port, token=here.node.token, stream="alone", count=count
            ),
            lambda: here.loader.seconds("plain_sync", directory=directory, count=count),
        )
        return [Result(ALONE, samples, Unit.OPERATIONS)]


BENCHMARKS = (
    Benchmark(
        "node-frames",
        (PIPELINED, MERGED),
        run_pipelined,
        lambda sizes: 4 * (sizes.rounds + 2) * sizes.node_appends * 128 + 64 * MIB,
    ),
    Benchmark("node-alone", (ALONE,), run_alone, lambda _sizes: 64 * MIB),
)
