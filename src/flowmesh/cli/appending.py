"""The work of `log append`: lines become batches, batches go to the writer in groups, and acknowledgements are counted.

One group is under way while the next one is read and encoded. Never two: after a batch that failed, none may follow.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, NamedTuple

from flowmesh.assemble import open_local_log, start_writer
from flowmesh.base.durability import Durability, Policy
from flowmesh.base.errors import BadRequest, FlowMeshError
from flowmesh.base.limits import MIB
from flowmesh.cli import meter
from flowmesh.cli.gathering import LineGathering
from flowmesh.cli.group import complain
from flowmesh.cli.lines import LineReader, Stop
from flowmesh.cli.reports import note_text
from flowmesh.format import names
from flowmesh.format.batch import Batch, Codec
from flowmesh.format.names import FileKind
from flowmesh.host.writer import WriterThread
from flowmesh.log.appender import Appender
from flowmesh.log.commit import Result
from flowmesh.log.findings import Action
from flowmesh.log.options import LogOptions
from flowmesh.log.retention import Retention

WAITING_BYTES_MAX = 16 * MIB
"""The most that is encoded ahead of the group under way."""


class AppendPlan(NamedTuple):
    directory: Path
    name: str | None
    options: LogOptions
    ndjson: bool
    codec: Codec
    batch_records: int
    linger_s: float
    retention: Retention | None


class AppendOutcome(NamedTuple):
    name: str
    base_offset: int
    durable_end: int
    durability: Durability
    trimmed: int
    recovered: tuple[str, ...]
    interrupted: bool
    fault: FlowMeshError | None
    """Why not all of the input was appended; None when all was."""

    @property
    def records(self) -> int:
        return self.durable_end - self.base_offset


def plan(
    directory: Path,
    ndjson: bool,
    *,
    name: str | None,
    durability: Durability,
    compression: str,
    batch_records: int,
    linger_ms: int,
    segment_bytes: int,
    segment_records: int,
    segment_age: int,
    retention_bytes: int | None,
    retention_age: int | None,
) -> AppendPlan:
    options = LogOptions(
        segment_bytes=segment_bytes,
        segment_records=segment_records,
        segment_age_ns=segment_age,
        durability=durability,
    )
    keeps_all = retention_bytes is None and retention_age is None
    retention = None if keeps_all else Retention(retention_age, retention_bytes)
    codec = Codec[compression.upper()]
    return AppendPlan(directory, name, options, ndjson, codec, batch_records, linger_ms / 1000, retention)


class AppendFeed:
    """Batches on their way into one log."""

    def __init__(self, log: Appender, writer: WriterThread, told: meter.Advance) -> None:
        self._log = log
        self._writer = writer
        self._told = told
        # Under `always` a group of several would go on past one that failed, so its groups hold one batch.
        self._group_max = 1 if log.options.durability.policy is Policy.ALWAYS else None
        self._waiting: list[Batch] = []
        self._under_way: Future[Sequence[Result]] | None = None

    @property
    def busy(self) -> bool:
        return self._under_way is not None

    def put(self, batch: Batch) -> None:
        self._waiting.append(batch)
        if self._under_way is not None and self._under_way.done():
            self._finish()
        while self._under_way is not None and sum(item.size for item in self._waiting) > WAITING_BYTES_MAX:
            self._finish()
        self._start()

    def settle(self) -> None:
        """Everything put in is acknowledged when this returns."""
        while self._under_way is not None:
            self._finish()

    def _start(self) -> None:
        if self._under_way is None and self._waiting:
            group, self._waiting = (
                self._waiting[: self._group_max],
                self._waiting[len(self._waiting[: self._group_max]) :],
            )
            self._under_way = self._writer.append(self._log, group)

    def _finish(self) -> None:
        assert self._under_way is not None
        results = self._under_way.result()
        self._under_way = None
        for result in results:
            if isinstance(result, FlowMeshError):
                raise result
            self._told(result.end_offset - result.base_offset)
        self._start()


def append_stream(wanted: AppendPlan, stream: BinaryIO) -> AppendOutcome:
    """Appends all of `stream`, or as much of it as can be, and says how far it came."""
    _require_place(wanted.directory)
    name = wanted.name or wanted.directory.resolve().name or "log"
    log, stop = open_local_log(wanted.directory, wanted.options, create=name), Stop()
    base_offset, trimmed = log.written_end, 0
    fault: FlowMeshError | None = None
    recovered = tuple(note_text(note) for note in log.notes if note.action in (Action.CUT, Action.QUARANTINE))
    with stop.listening():
        try:
            _require_name(log, wanted)
            for line in recovered:
                complain(f"recovery: {line}")
            trimmed, fault = _append_and_trim(wanted, stream, log, stop)
        finally:
            log.close()
    # The view moves only when an fsync has succeeded, so its end is what is durable, whatever happened above.
    return AppendOutcome(
        log.view.chain.name,
        base_offset,
        log.view.end_offset,
        wanted.options.durability,
        trimmed,
        recovered,
        stop.wanted,
        fault,
    )


def _append_and_trim(
    wanted: AppendPlan, stream: BinaryIO, log: Appender, stop: Stop
) -> tuple[int, FlowMeshError | None]:
    writer = start_writer()
    try:
        with _telling(wanted, stream, log.written_end) as told:
            fault = _pump(wanted, LineReader(stream, stop), AppendFeed(log, writer, told))
        if wanted.retention is None or fault is not None:
            return 0, fault
        retention = wanted.retention
        return writer.call(lambda: log.trim(retention)).result(), None
    except FlowMeshError as error:
        return 0, error
    finally:
        writer.close()


def _pump(wanted: AppendPlan, reader: LineReader, feed: AppendFeed) -> FlowMeshError | None:
    """From the first line to the last. A line that cannot be taken ends it; what came before it is appended."""
    gathering = LineGathering(wanted.batch_records, wanted.codec, ndjson=wanted.ndjson)
    fault: FlowMeshError | None = None
    try:
        while fault is None:
            first_line = reader.lines_read + 1
            try:
                lines = reader.read(wanted.linger_s if gathering.count or feed.busy else None)
            except FlowMeshError as error:
                fault, lines = error, None
            if lines:
                fault = gathering.add(lines, first_line)
                everything = gathering.is_large
            else:
                everything = True
            for batch in gathering.batches(everything=everything or fault is not None):
                feed.put(batch)
            if not lines:
                feed.settle()
            if lines is None:
                break
        feed.settle()
    except FlowMeshError as error:
        return error
    return fault


def _telling(wanted: AppendPlan, stream: BinaryIO, end: int) -> AbstractContextManager[meter.Advance]:
    """Who types is told of each acknowledgement; a spinner between the typed lines would only disturb."""
    if not (stream.isatty() and sys.stderr.isatty()):
        return meter.counting(f"appending to {wanted.directory}")
    complain("Type one record a line; Ctrl-D ends.")

    def tell(count: int) -> None:
        nonlocal end
        complain(f"  offset {end}" if count == 1 else f"  offsets [{end}, {end + count})")
        end += count

    return nullcontext(tell)


def _require_place(directory: Path) -> None:
    """A directory of something else is not made into a log: recovery would take its temporary files for its own."""
    if not directory.is_dir() or (directory / names.CHAIN).exists():
        return
    for path in directory.iterdir():
        if names.classify(path.name)[0] in (FileKind.STRAY, FileKind.TEMPORARY) and path.stem != names.CHAIN:
            raise BadRequest(
                f"{directory} holds no log, and is not empty ({path.name}).", hint="Name a new or an empty directory."
            )


def _require_name(log: Appender, wanted: AppendPlan) -> None:
    found = log.view.chain.name
    if wanted.name is not None and wanted.name != found:
        raise BadRequest(
            f"the log in {wanted.directory} is named {found!r}; a name is given once, when a log is created.",
            field="name",
            hint="Leave --name out to append to it.",
        )
