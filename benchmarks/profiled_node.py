"""A node whose stages are timed: of each its own time, without that of the stages inside it. SIGUSR1 writes it down.

Run by `benchmarks.node_profile` in the place of `flowmesh serve`. Timing costs about a microsecond for each call.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from flowmesh import serve as running
from flowmesh.api.frames import appends, connection, replies
from flowmesh.api.http import connection as http_connection
from flowmesh.api.http import exchange, gathering, record_forms
from flowmesh.cli.serve import serve
from flowmesh.format import columns, frame
from flowmesh.host import disk, writer
from flowmesh.log import appender
from flowmesh.node import partition

IDLE = "wait for work"
LOOP, WRITER = "loop", "writer"
Stage = tuple[str, str, object, str]
STAGES: tuple[Stage, ...] = (
    (LOOP, "take frames apart", frame.FrameDecoder, "feed"),
    (LOOP, "find their stream, gather them", connection.FrameConnection, "data_received"),
    (LOOP, "parse HTTP, start the request", http_connection.HttpConnection, "data_received"),
    (LOOP, "decode a record's JSON", record_forms, "single"),
    (LOOP, "lay records out in columns", columns, "encode"),
    (LOOP, "hand over to the writer", writer.WriterThread, "submit"),
    (LOOP, "take results over from the writer", running, "deliver_here"),
    (LOOP, "match results with requests", appends.AppendDesk, "_answer"),
    (LOOP, "match results with requests", gathering, "_answer"),
    (LOOP, "make replies", replies, "single_appends"),
    (LOOP, "write replies to the socket", connection.FrameConnection, "_flush"),
    (LOOP, "write the answer to the socket", exchange, "written_at_once"),
    (WRITER, IDLE, writer.WriterThread, "_gather"),
    (WRITER, "run the round", writer.WriterThread, "_commit"),
    (WRITER, "decide, apply, make results", partition.StreamPartition, "write"),
    (WRITER, "the log around the hash", appender.Appender, "write"),
    (WRITER, "ask for free space", disk.RealDisk, "free_bytes"),
    (WRITER, "stamp, hash, checksum", appender.Appender, "_sealed"),
    (WRITER, "pwrite: the block, and the durable mark", disk.RealFile, "write"),
    (WRITER, "fdatasync", disk.RealFile, "sync"),
    (WRITER, "publish to readers", appender.Appender, "complete_sync"),
)
_cpu, _wall = time.thread_time_ns, time.perf_counter_ns


class Spent(msgspec.Struct):
    calls: int = 0
    cpu_ns: int = 0
    wall_ns: int = 0


class Snapshot(msgspec.Struct):
    """Since the node began."""

    stages: dict[str, Spent]
    """By thread and name, divided by a colon."""
    threads_ns: dict[str, int]
    """CPU time by the name of the thread."""


_spent: dict[str, Spent] = {}
_inner = threading.local()


def _timed(function: Callable[..., Any], stage: str) -> Callable[..., Any]:
    """Bytes are laid out in columns on either thread: a stage belongs to the thread that it runs on."""

    @functools.wraps(function)
    def timed(*arguments: Any, **named: Any) -> Any:
        outer: list[list[int]] = _inner.__dict__.setdefault("stack", [])
        within = [0, 0]
        outer.append(within)
        wall, cpu = _wall(), _cpu()
        try:
            return function(*arguments, **named)
        finally:
            cpu, wall = _cpu() - cpu, _wall() - wall
            outer.pop()
            thread = WRITER if threading.current_thread().name == "flowmesh-writer" else LOOP
            found = _spent.setdefault(f"{thread}:{stage}", Spent())
            found.calls += 1
            found.cpu_ns += cpu - within[0]
            found.wall_ns += wall - within[1]
            if outer:
                outer[-1][0] += cpu
                outer[-1][1] += wall

    return timed


def _write_down(place: Path) -> None:
    clocks = {thread.name: time.pthread_getcpuclockid(thread.ident) for thread in threading.enumerate() if thread.ident}
    snapshot = Snapshot(_spent, {name: time.clock_gettime_ns(clock) for name, clock in clocks.items()})
    draft = place.with_suffix(".draft")
    draft.write_bytes(msgspec.json.encode(snapshot))
    os.replace(draft, place)


def main() -> None:
    place = Path(sys.argv.pop(1))
    for _, stage, owner, name in STAGES:
        setattr(owner, name, _timed(getattr(owner, name), stage))
    signal.signal(signal.SIGUSR1, lambda _number, _frame: _write_down(place))
    serve(prog_name="flowmesh serve")


if __name__ == "__main__":
    main()
