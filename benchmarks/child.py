"""What has to happen in a process of its own: a writer that is killed, and one whose memory is watched."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from benchmarks.place import BLOCK_BYTES, append, fill, random_batch
from flowmesh.assemble import open_local_log, read_local_log
from flowmesh.base.limits import MIB

_SAMPLES = 40


def write_until_killed(directory: Path) -> None:
    """Commits without end, and tells how far each one came; only a signal stops it."""
    log = open_local_log(directory, create="benchmark")
    group = [random_batch(BLOCK_BYTES)] * (MIB // BLOCK_BYTES)
    while True:
        append(log, group)
        print(log.view.size_bytes, flush=True)


def watch_memory(directory: Path, size_bytes: int) -> None:
    """Writes a log and reads it to its end, taking the resident size all along; prints one line of JSON."""
    log = open_local_log(directory, create="benchmark")
    step = max(size_bytes // _SAMPLES, MIB)
    writing = [_step_of_writing(log, step) for _ in range(max(size_bytes // step, 2))]
    log.close()
    view = read_local_log(directory)
    reading: list[int] = []
    read, offset, cursor = 0, view.start_offset, None
    while offset < view.end_offset:
        chunk = view.read(offset, MIB, cursor)
        offset, cursor = chunk.next_offset, chunk.cursor
        read += sum([len(block.entry) for block in chunk.blocks])
        if read >= step * (len(reading) + 1):
            reading.append(resident_bytes())
    print(json.dumps({"writing": writing, "reading": reading}), flush=True)


def _step_of_writing(log: object, step: int) -> int:
    fill(log, step, BLOCK_BYTES)  # type: ignore[arg-type]
    return resident_bytes()


def resident_bytes() -> int:
    """The resident size of this process, as Linux tells it."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    task, place, *rest = sys.argv[1:]
    if task == "write":
        write_until_killed(Path(place))
    else:
        watch_memory(Path(place), int(rest[0]))
