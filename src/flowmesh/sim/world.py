"""One simulated machine with one log on it: what a workload asks of the log, and what the log answered, noted down.

Knows no workload and injects no fault; a power cut passes through it, a log that failed ends it with `Stopped`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from flowmesh.base.durability import Durability, Policy
from flowmesh.base.errors import DiskFull, FlowMeshError, StorageFailed
from flowmesh.format.batch import Batch, Codec
from flowmesh.format.chain import ChainIdentity
from flowmesh.format.columns import encode
from flowmesh.log.appender import Appender
from flowmesh.log.commit import Committed, Result, sync_one_by_one
from flowmesh.log.open_log import open_log, read_log
from flowmesh.log.options import LogOptions
from flowmesh.log.retention import Retention
from flowmesh.log.verify import verify_log
from flowmesh.sim.checker import TAG_BYTES, Expectations, Row
from flowmesh.sim.clock import START_WALL_NS, SimClock
from flowmesh.sim.disk import SimDisk
from flowmesh.sim.scenario import Stopped
from flowmesh.sim.writer import SimWriter

DIRECTORY = "/data/log"
IDENTITY = ChainIdentity(b"simulate", "simulated", START_WALL_NS)
TICK_NS = 1_000
"""Each reading of the clock is later than the one before, so that no two timestamps hide a mix-up."""


class World:
    def __init__(self, disk: SimDisk, options: LogOptions, data_seed: int, expected: Expectations) -> None:
        self.disk = disk
        self.options = options
        self.expected = expected
        self.chance = random.Random(data_seed)
        # A machine that comes back may have a clock that is behind.
        self.clock = SimClock(START_WALL_NS + self.chance.choice((-1, 1)) * 3_600_000_000_000, tick_ns=TICK_NS)
        self.problems: list[str] = []
        self.stopped = False
        self.watch_from = 0
        """From which operation on a second process reads the log as well."""
        self._log: Appender | None = None
        self._after_sync = True
        self._writer = SimWriter(self._sync_files)

    @property
    def log(self) -> Appender:
        assert self._log is not None, "the workload has not opened the log"
        return self._log

    # ---- what a workload does

    def open(self, *, durability: Durability | None = None) -> None:
        options = self.options if durability is None else replace(self.options, durability=durability)
        try:
            self._log = open_log(self.disk, DIRECTORY, self.clock, options, create=IDENTITY)
        except (OSError, StorageFailed, DiskFull) as error:
            raise Stopped from error
        self._writer = SimWriter(self._sync_files)
        self._after_sync = options.durability.policy is not Policy.INTERVAL
        self.look()

    def batch(
        self, records: int = 2, size: int = 40, *, rich: bool = False, codec: Codec = Codec.NONE
    ) -> tuple[int, Batch]:
        """A batch of known records, and the number it goes by. `rich`: with keys, headers, nulls and times."""
        tag = f"{len(self.expected.sent):0{TAG_BYTES}d}".encode()
        values: list[bytes | None] = [tag + self.chance.randbytes(size)]
        values += [None if rich and row % 3 == 2 else self.chance.randbytes(size) for row in range(1, records)]
        keys = [b"k%d" % row if row % 2 else None for row in range(records)] if rich else [None] * records
        headers = [((b"h", b"%d" % row),) * (row % 3) if rich else () for row in range(records)]
        base = START_WALL_NS + self.chance.randrange(10**9)
        times = [base + self.chance.randrange(10**6) if rich else None for _ in range(records)]
        rows = tuple(map(Row, keys, values, headers, times))
        number = self.expected.sending(rows)
        given = [time for time in times if time is not None]
        return number, encode(
            values,
            keys=keys if rich else None,
            headers=headers if rich else None,
            times_ns=given or None,
            codec=codec,
        )

    def send(self, *groups: Sequence[tuple[int, Batch]], apart: bool = False) -> None:
        """One commit round of these submissions, or several; what comes back is what their senders were told."""
        for group in groups:
            numbers = [number for number, _ in group]

            def done(results: Sequence[Result], numbers: list[int] = numbers) -> None:
                for number, result in zip(numbers, results, strict=True):
                    self.expected.told(number, result, after_sync=self._after_sync)

            self._writer.submit(self.log, [batch for _, batch in group], done)
        try:
            (self._writer.step_apart if apart else self._writer.step)()
        except OSError as error:
            self.problems.append(f"a commit round raised instead of answering: {error}")
            raise Stopped from error
        self.look()
        self._require_alive()

    def append(self, count: int = 1, *, records: int = 2, size: int = 40) -> None:
        """`count` batches, each in a commit round of its own."""
        for _ in range(count):
            self.send([self.batch(records, size)])

    def tick(self) -> None:
        """The moment at which an interval log is synced."""
        self._writer.tick()
        self._require_alive()
        self.expected.synced()
        self.look()

    def roll(self) -> None:
        self._attempt(self.log.roll)
        self.look()

    def trim(self, retention: Retention) -> None:
        """Trims, having first noted by its own account how far that may go."""
        log = self.log
        held = min(log.holds.values(), default=log.written_end)
        self.expected.trimming(max(held, self.expected.start_least))
        if self._attempt(lambda: log.trim(retention)):
            self.problems += self.expected.trimmed(log.view.start_offset)
        self.look()

    def use(self) -> None:
        self.append()
        self.roll()
        self.append()

    def close(self) -> None:
        self._attempt(self.log.close)
        self.expected.synced()

    def restart_failed(self) -> None:
        """The process ends and another one opens the log, on a machine that never went down."""
        self.log.close()
        self.open()
        try:
            self.check(machine_died=False)
        except OSError as error:
            raise Stopped from error

    # ---- what is watched

    def look(self) -> None:
        """Readers come by at any time; what they are shown is noted, because it must never be lost."""
        if self._log is None or self._log.failure is not None:
            return
        self.expected.shown(self._log.view.end_offset)
        if self.disk.operations < self.watch_from:
            return
        try:
            self.expected.shown(read_log(self.disk, DIRECTORY).end_offset)
        except OSError:
            return  # an ordered read fault, met by the reader

    def check(self, *, machine_died: bool) -> None:
        """The recovered log against what is expected of it, and against the proof of its own hashes."""
        log = self.log
        self.problems += self.expected.check(log.view, machine_died=machine_died)
        if log.written_end != log.view.end_offset:
            self.problems.append(f"written up to {log.written_end}, but {log.view.end_offset} is shown after opening")
        report = verify_log(self.disk, DIRECTORY)
        self.problems += [f"verify: {damage.describe()}" for damage in report.damage]
        if report.end_offset != log.view.end_offset:
            self.problems.append(f"verify ends at offset {report.end_offset}, the view at {log.view.end_offset}")

    def _sync_files(self, logs: Sequence[Committed]) -> None:
        self.look()  # between the write and its fsync: what is shown now is shown too early
        sync_one_by_one(logs)

    def _require_alive(self) -> None:
        if self.log.failure is not None:
            raise Stopped(str(self.log.failure))

    def _attempt(self, action: object) -> bool:
        """Whether the log did it. It may refuse for want of space and go on; any other failure is the end of it."""
        assert callable(action)
        try:
            action()
        except DiskFull:
            return False
        except FlowMeshError as error:
            raise Stopped(str(error)) from error
        except OSError as error:
            self.problems.append(f"the log let an OSError through: {error}")
            raise Stopped from error
        return True
