"""A child program that appends until it is killed, with several appends in flight, and reports each acknowledgement.

Lines on the report: `opening`, `opened END`, `ack BASE END`, `refused CODE`, `roll`, `trim`, `ended`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from threading import Semaphore

from flowmesh.assemble import open_local_log
from flowmesh.host.clock import RealClock
from flowmesh.host.writer import WriterThread
from flowmesh.log.commit import Completion
from flowmesh.log.retention import Retention
from flowmesh.log.sealing import Appended
from tests.process import values
from tests.process.settings import Settings, from_arguments


def run(settings: Settings) -> None:
    settings.tell("opening")
    log = open_local_log(settings.directory, settings.options(), create="killed")
    offset = log.view.end_offset
    settings.tell(f"opened {offset}")
    room = Semaphore(settings.in_flight)

    def deliver(completions: Sequence[Completion]) -> None:
        results = [result for completion in completions for result in completion.results]
        settings.tell(
            *(
                f"ack {result.base_offset} {result.end_offset}"
                if isinstance(result, Appended)
                else f"refused {result.code}"
                for result in results
            )
        )
        room.release(len(completions))

    def trim() -> None:
        settings.tell("trim")
        log.trim(Retention(size_bytes=settings.retention_bytes))

    def roll() -> None:
        settings.tell("roll")
        log.roll()

    chance = random.Random(settings.seed * 1_000_003 + offset)
    writer = WriterThread(RealClock(), deliver)
    for turn in range(1, settings.appends + 1):
        counts = [chance.randint(1, values.BATCH_RECORDS_MAX) for _ in range(chance.randint(1, 3))]
        group = []
        for count in counts:
            group.append(values.batch(settings.seed, offset, count))
            offset += count
        room.acquire()
        writer.submit(log, group, lambda _results: None)
        if settings.roll_every and turn % settings.roll_every == 0:
            writer.call(roll)
        if settings.trim_every and turn % settings.trim_every == 0:
            writer.call(trim)
    writer.close()
    log.close()
    settings.tell("ended")


if __name__ == "__main__":
    run(from_arguments(sys.argv))
