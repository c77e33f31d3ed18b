"""`python -m benchmarks.node_profile`: where the time of an acknowledgement goes, stage by stage, as Markdown tables.

The load is that of the benchmarks. CPU time is nearly the same on a busy machine; wall time and rates are not.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.node_frames import WINDOW
from benchmarks.node_http import CONNECTIONS
from benchmarks.node_place import Ground, loader
from benchmarks.place import QUICK, temporary_place
from benchmarks.profiled_node import IDLE, LOOP, STAGES, WRITER, Snapshot, Spent
from flowmesh.testing import NodeProcess

_PATIENCE_S = 10.0
_SHOWN_NS = 5
"""Less than this for each append is no line of its own."""
_REST = {LOOP: "event loop, sockets, coroutines, and the timing itself", WRITER: "all else, and the timing itself"}
_THREADS = {LOOP: "MainThread", WRITER: "flowmesh-writer"}


class Load(NamedTuple):
    """What is asked of the node; `run` returns the seconds that so many requests took."""

    title: str
    requests: int
    run: Callable[[Ground, int], float]


def _pipelined(here: Ground, count: int) -> float:
    arguments = {"port": here.frames_port, "token": here.node.token, "stream": "profile", "count": count}
    return here.loader.seconds("pipelined", window=WINDOW, **arguments)


def _alone(here: Ground, count: int) -> float:
    arguments = {"port": here.frames_port, "token": here.node.token, "stream": "profile", "count": count}
    return count * here.loader.seconds("alone", **arguments)


def _posts(here: Ground, count: int) -> float:
    arguments = {"port": here.http_port, "token": here.node.token, "stream": "profile", "count": count}
    return here.loader.seconds("posts", connections=CONNECTIONS, **arguments)


LOADS = (
    Load("frames, 1,000 in flight", 1_000_000, _pipelined),
    Load("frames, one in flight", 1_000, _alone),
    Load(f"HTTP, {CONNECTIONS} connections", 30_000, _posts),
)


class ProfiledNode(NodeProcess):
    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self._place = data_dir.with_name("profile.json")
        self.program = (sys.executable, "-m", "benchmarks.profiled_node", str(self._place))

    def snapshot(self) -> Snapshot:
        self._place.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        deadline = time.monotonic() + _PATIENCE_S
        while not self._place.exists():
            if time.monotonic() > deadline:
                raise TimeoutError("the node did not write down what it had measured")
            time.sleep(0.01)
        return msgspec.json.decode(self._place.read_bytes(), type=Snapshot)


@contextmanager
def profiled_ground(parent: Path) -> Iterator[tuple[ProfiledNode, Ground]]:
    with (
        temporary_place(parent, QUICK) as place,
        place.folder("profile") as folder,
        ProfiledNode(folder / "data") as node,
        loader() as load,
    ):
        ground = Ground(node, load)
        ground.stream("profile")
        yield node, ground


def profile(parent: Path, scale: float = 1.0) -> Iterator[str]:
    """The lines of the tables."""
    with profiled_ground(parent) as (node, ground):
        for load in LOADS:
            count = max(int(load.requests * scale), 1)
            load.run(ground, max(count // 20, 1))
            before = node.snapshot()
            seconds = load.run(ground, count)
            yield from _table(load.title, count, seconds, before, node.snapshot())


def _table(title: str, count: int, seconds: float, before: Snapshot, after: Snapshot) -> Iterator[str]:
    yield f"| {title}: {count:,} appends, {count / seconds:,.0f} a second | calls | CPU, µs each | wall, µs each |"
    yield "| --- | ---: | ---: | ---: |"
    for thread in (LOOP, WRITER):
        known = dict.fromkeys(f"{thread}:{stage}" for stage in [found[1] for found in STAGES])
        rest_ns = after.threads_ns[_THREADS[thread]] - before.threads_ns[_THREADS[thread]]
        total = f"{rest_ns / count / 1e3:,.2f}"
        for name in known:
            spent = _difference(after.stages.get(name), before.stages.get(name))
            rest_ns -= spent.cpu_ns
            if spent.wall_ns >= _SHOWN_NS * count:
                wall = "" if name.endswith(IDLE) else f"{spent.wall_ns / count / 1e3:,.2f}"
                stage = name.partition(":")[2]
                yield f"| {thread}: {stage} | {spent.calls:,} | {spent.cpu_ns / count / 1e3:,.2f} | {wall} |"
        yield f"| {thread}: {_REST[thread]} | | {max(rest_ns, 0) / count / 1e3:,.2f} | |"
        yield f"| **{thread}, whole thread** | | **{total}** | |"
    yield ""


def _difference(after: Spent | None, before: Spent | None) -> Spent:
    after, before = after or Spent(), before or Spent()
    return Spent(after.calls - before.calls, after.cpu_ns - before.cpu_ns, after.wall_ns - before.wall_ns)


def main(arguments: Sequence[str] | None = None) -> int:
    told = "Shows where the time of an acknowledgement goes, as Markdown."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.node_profile", description=told)
    parser.add_argument("--dir", type=Path, default=Path(), help="where to write (default: here)")
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of requests (default: 1)")
    choice = parser.parse_args(arguments)
    for line in profile(choice.dir, choice.scale):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
