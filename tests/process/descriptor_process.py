"""A child program that runs out of file descriptors: what it reads stays bounded, what it cannot open it says.

Lines on the report: `ack BASE END`, `segments COUNT`, `open MOST`, `refused-open ERRNO`, `refused-read ERRNO`,
`refused CODE`, `recovered END`, `closed`.
"""

from __future__ import annotations

import os
import resource
import sys

from flowmesh.assemble import open_local_log
from flowmesh.base.errors import FlowMeshError
from flowmesh.log.appender import Appender
from flowmesh.log.sealing import Appended
from tests.process import values
from tests.process.settings import Settings, from_arguments

SPARE = 24


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) - 1


def append(settings: Settings, log: Appender, count: int) -> bool:
    """One append, reported."""
    (result,) = log.write([values.batch(settings.seed, log.written_end, count)])
    if not isinstance(result, Appended):
        settings.tell(f"refused {result.code}")
        return False
    log.sync()
    settings.tell(f"ack {result.base_offset} {result.end_offset}")
    return True


def exhausted() -> list[int]:
    """Every descriptor that is left."""
    taken = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return taken


def run(settings: Settings) -> None:
    log = open_local_log(settings.directory, settings.options(), create="descriptors")
    for turn in range(settings.appends):
        append(settings, log, turn % values.BATCH_RECORDS_MAX + 1)
    settings.tell(f"segments {len(log.view.segments)}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_descriptors() + SPARE, open_descriptors() + SPARE))
    most = 0
    for _ in range(2):
        view = log.view
        for segment in view.segments:
            assert view.read(segment.base_offset).blocks[0].base_offset == segment.base_offset
            most = max(most, open_descriptors())
        values.check_view(settings.seed, view)
    settings.tell(f"open {most}")
    taken = exhausted()
    other = settings.directory + "-other"
    try:
        open_local_log(other, settings.options(), create="other")
    except (OSError, FlowMeshError) as error:
        settings.tell(f"refused-open {getattr(error, 'errno', error)}")
    try:
        log.view.read(log.view.start_offset)
    except OSError as error:
        settings.tell(f"refused-read {error.errno}")
    for _ in range(settings.appends):
        if not append(settings, log, values.BATCH_RECORDS_MAX):
            break
    for descriptor in taken:
        os.close(descriptor)
    values.check_view(settings.seed, log.view)
    open_local_log(other, settings.options(), create="other").close()
    settings.tell(f"recovered {log.view.end_offset}")
    log.close()
    settings.tell("closed")


if __name__ == "__main__":
    run(from_arguments(sys.argv))
