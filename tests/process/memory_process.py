"""A child program that writes a large log and reads it back, and says how much memory that ever took.

One line on the report: `rss BASELINE WRITTEN READ`, the peak of the resident set in KiB at three moments.
"""

from __future__ import annotations

import resource
import sys
from collections import deque
from concurrent.futures import Future
from typing import Any

from flowmesh.assemble import open_local_log, start_writer
from flowmesh.base.limits import MIB
from flowmesh.format import columns
from flowmesh.log.sealing import Appended
from tests.process.settings import Settings, from_arguments

LARGE, SMALL = 1 * MIB, 100_000
SMALL_PER_BATCH = 10
ANSWER_S = 60.0


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run(settings: Settings) -> None:
    filling = bytes(range(256)) * (LARGE // 256)
    log = open_local_log(settings.directory, settings.options(), create="memory")
    writer = start_writer()
    baseline = peak_kib()
    waiting: deque[Future[Any]] = deque()
    size = number = 0
    while size < settings.total_bytes or waiting:
        if size < settings.total_bytes:
            mark = number.to_bytes(8, "little")
            large = number % 2 == 0
            values = [mark + filling[8:]] if large else [mark + filling[8:SMALL]] * SMALL_PER_BATCH
            waiting.append(writer.append(log, [columns.encode(values)]))
            size += sum(map(len, values))
            number += 1
        if len(waiting) >= settings.in_flight or size >= settings.total_bytes:
            (result,) = waiting.popleft().result(ANSWER_S)
            assert isinstance(result, Appended), result
    written = peak_kib()
    blocks = seen = 0
    for block in log.view.blocks():
        values = columns.decode(block.batch).values.items()
        assert values[0][:8] == blocks.to_bytes(8, "little")
        seen += sum(map(len, values))
        blocks += 1
    assert (blocks, seen) == (number, size)
    settings.tell(f"rss {baseline} {written} {peak_kib()}")
    writer.close()
    log.close()


if __name__ == "__main__":
    run(from_arguments(sys.argv))
