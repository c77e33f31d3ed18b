"""A child program whose disk fails somewhere: it appends, goes on after a refusal, reads its own log, and ends.

Lines on the report: `opened END`, `ack BASE END`, `refused CODE`, `dead`, `trimmed COUNT`, `trim-refused CODE`,
`read START END` (all of it was right), `closed` or `close-failed CODE`.
"""

from __future__ import annotations

import sys

from flowmesh.assemble import open_local_log, start_writer
from flowmesh.base.errors import FlowMeshError
from flowmesh.host.writer import WriterThread
from flowmesh.log.appender import Appender
from flowmesh.log.retention import Retention
from flowmesh.log.sealing import Appended
from tests.process import values
from tests.process.settings import Settings, from_arguments

ANSWER_S = 30.0


def run(settings: Settings) -> None:
    log = open_local_log(settings.directory, settings.options(), create="faulty")
    settings.tell(f"opened {log.view.end_offset}")
    writer = start_writer()
    try:
        _append_all(settings, writer, log)
    except TimeoutError:
        settings.tell("dead")
        return
    view = log.view
    values.check_view(settings.seed, view)
    settings.tell(f"read {view.start_offset} {view.end_offset}")
    writer.close()
    try:
        log.close()
        settings.tell("closed")
    except FlowMeshError as error:
        settings.tell(f"close-failed {error.code}")


def _append_all(settings: Settings, writer: WriterThread, log: Appender) -> None:
    """Rounds of appends in flight together. After the first refusal so many more rounds, each of one append."""
    refused = False
    remaining = settings.appends
    turn = 0
    while remaining:
        turn += 1
        offset = writer.call(lambda: log.written_end).result(ANSWER_S)
        futures = []
        for number in range(1 if refused else settings.in_flight):
            count = (turn + number) % values.BATCH_RECORDS_MAX + 1
            futures.append(writer.append(log, [values.batch(settings.seed, offset, count)]))
            offset += count
        lines = []
        for future in futures:
            (result,) = future.result(ANSWER_S)
            if isinstance(result, Appended):
                lines.append(f"ack {result.base_offset} {result.end_offset}")
            else:
                lines.append(f"refused {result.code}")
                if not refused:
                    refused, remaining = True, settings.after_failure + 1
        settings.tell(*lines)
        if settings.stop_when_healed and refused and lines[-1].startswith("ack"):
            return
        if settings.trim_every and turn % settings.trim_every == 0:
            _trim(settings, writer, log)
        remaining -= 1


def _trim(settings: Settings, writer: WriterThread, log: Appender) -> None:
    try:
        gone = writer.call(lambda: log.trim(Retention(size_bytes=settings.retention_bytes))).result(ANSWER_S)
        settings.tell(f"trimmed {gone}")
    except FlowMeshError as error:
        settings.tell(f"trim-refused {error.code}")


if __name__ == "__main__":
    run(from_arguments(sys.argv))
