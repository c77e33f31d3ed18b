"""A partition: one machine on one log. Decide, append, apply, and park the replies until the log says they are durable.

The writer owns it and drives it in rounds, as it drives a bare log. Readers take `view`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import is_
from typing import NamedTuple

from flowmesh.base.durability import Policy
from flowmesh.base.errors import CorruptData, FlowMeshError
from flowmesh.base.limits import SNAPSHOT_BYTES
from flowmesh.log.appender import Appender
from flowmesh.log.findings import Damage
from flowmesh.log.options import LogOptions
from flowmesh.log.retention import Retention
from flowmesh.log.scan import scan
from flowmesh.log.sealing import Appended
from flowmesh.log.trim import doomed
from flowmesh.log.view import LogView
from flowmesh.node import snapshots
from flowmesh.node.statistics import CommitStatistics
from flowmesh.ports.clock import Clock
from flowmesh.ports.disk import Disk
from flowmesh.streams.machine import AppendCommand, Decision, Placed, StreamMachine
from flowmesh.streams.producers import SentBatch


class AppendReply(NamedTuple):
    """Where records went. `repeated` says that they were there already."""

    base_offset: int
    end_offset: int
    timestamp_ns: int
    repeated: bool = False


class _Prepared(NamedTuple):
    """A decision that was made before the write that brings its commands."""

    end_offset: int
    group: Sequence[AppendCommand]
    decision: Decision

    def fits(self, end_offset: int, group: Sequence[AppendCommand]) -> bool:
        return end_offset == self.end_offset and len(group) >= len(self.group) and all(map(is_, self.group, group))


class StreamPartition:
    def __init__(
        self, disk: Disk, clock: Clock, appender: Appender, statistics: CommitStatistics | None = None
    ) -> None:
        self.appender = appender
        self.machine = StreamMachine()
        self.statistics = statistics if statistics is not None else CommitStatistics()
        self.on_published: list[Callable[[], None]] = []
        """Called, each once, when more became readable. Belongs to the thread that serves readers."""
        self.on_durable: Callable[[StreamPartition], None] | None = None
        """Called by the writer when more became durable, where no reply tells so: logs that are synced by interval."""
        self._disk = disk
        self._clock = clock
        self._sync_ns = 0
        self._prepared: _Prepared | None = None
        self._snapshot_position = self._position()
        self._fold()

    def _fold(self) -> None:
        """The machine as the log says it is: from the newest snapshot on, or from the beginning."""
        view = self.appender.view
        restored = snapshots.load(self._disk, self.appender.directory, view, self.machine.state_version)
        if restored.state is not None:
            self.machine.restore(restored.state)
        offset = restored.next_offset
        while offset < view.end_offset:
            try:
                for block in view.blocks(offset):
                    self.machine.apply(block.batch_header, block.base_offset)
                    offset = block.end_offset
            except CorruptData:
                # What is damaged cannot be folded; all around it can still be served, and the range is named.
                offset = _end_of_damage(view, offset)

    # --- what the writer drives ---------------------------------------------------------------------------------

    @property
    def options(self) -> LogOptions:
        return self.appender.options

    @property
    def dirty(self) -> bool:
        return self.appender.dirty

    @property
    def failure(self) -> FlowMeshError | None:
        return self.appender.failure

    def write(self, group: Sequence[AppendCommand]) -> list[AppendReply | FlowMeshError]:
        prepared, self._prepared = self._prepared, None
        if prepared is None or not prepared.fits(self.appender.written_end, group):
            return self._carry_out(self.machine.decide(group, self._clock.wall_ns()))
        replies = self._carry_out(prepared.decision)
        rest = group[len(prepared.group) :]
        return [*replies, *self._carry_out(self.machine.decide(rest, self._clock.wall_ns()))] if rest else replies

    def prepare(self, group: Sequence[AppendCommand]) -> None:
        """What was written is applied, so what comes next can be decided, although no sync has covered it yet."""
        decision = self.machine.decide(group, self._clock.wall_ns())
        self.appender.prepare(decision.batches)
        self._prepared = _Prepared(self.appender.written_end, group, decision)

    def _carry_out(self, decision: Decision) -> list[AppendReply | FlowMeshError]:
        results = self.appender.write(decision.batches)
        if decision.batches:
            self.statistics.records.add(sum([batch.header.count for batch in decision.batches]))
            self.statistics.size_bytes.add(sum([batch.size for batch in decision.batches]))
        for batch, result in zip(decision.batches, results, strict=True):
            if isinstance(result, Appended):
                self.machine.apply(batch.header, result.base_offset)
        return [self._reply(outcome, results) for outcome in decision.outcomes]

    def _reply(
        self, outcome: Placed | SentBatch | FlowMeshError, results: Sequence[Appended | FlowMeshError]
    ) -> AppendReply | FlowMeshError:
        if isinstance(outcome, Placed):
            result = results[outcome.batch]
            if isinstance(result, FlowMeshError):
                return result
            base = result.base_offset + outcome.first
            return AppendReply(base, base + outcome.record_count, result.timestamp_ns, outcome.repeated)
        if isinstance(outcome, SentBatch):
            return AppendReply(outcome.base_offset, outcome.base_offset + outcome.record_count, 0, repeated=True)
        return outcome

    def sync_file(self) -> None:
        began = self._clock.monotonic_ns()
        self.appender.sync_file()
        self._sync_ns = self._clock.monotonic_ns() - began

    def poison(self, reason: str) -> None:
        self.appender.poison(reason)

    def complete_sync(self) -> None:
        self.appender.complete_sync()
        self.statistics.sync_ns.add(self._sync_ns)
        if self._position() - self._snapshot_position >= SNAPSHOT_BYTES:
            self.snapshot()
        if self.on_durable is not None and self.options.durability.policy is Policy.INTERVAL:
            self.on_durable(self)

    # --- upkeep, on the writer's thread -------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Saves a restart some folding. One that cannot be written (the disk is full) costs that, and nothing else."""
        with suppress(OSError):
            self._save_snapshot(sync=self.view.start_offset > 0)
        self._snapshot_position = self._position()

    def _save_snapshot(self, *, sync: bool) -> None:
        state, version = self.machine.snapshot(), self.machine.state_version
        snapshots.save(self._disk, self.appender.directory, self.appender.view, version, state, sync=sync)

    def trim(self, retention: Retention) -> int:
        """What the machine knows of the records that go is in snapshots alone from then on: one is durable before."""
        if self.failure is not None:
            return 0
        appender = self.appender
        appender.sync()
        if not doomed(self.view.closed, self.view.active, retention, appender.holds, self._clock.wall_ns()):
            return 0
        try:
            self._save_snapshot(sync=True)
        except OSError:
            return 0  # without it nothing may go; upkeep tries again
        count = appender.trim(retention)
        self._snapshot_position = self._position()
        return count

    def close(self) -> None:
        try:
            if self.failure is None:
                self.appender.sync()
                self.snapshot()
        finally:
            self.appender.close()

    def discard(self) -> None:
        """Closes a log that is deleted, whatever state it is in, and keeps none of its files open."""
        with suppress(FlowMeshError, OSError):
            self.appender.close()
        for segment in self.view.segments:
            segment.source.let_go()

    def published(self) -> None:
        """Calls whoever waits for more. For the thread that serves readers."""
        waiting, self.on_published = self.on_published, []
        for wake in waiting:
            wake()

    # --- what readers see ---------------------------------------------------------------------------------------

    @property
    def view(self) -> LogView:
        return self.appender.view

    def _position(self) -> int:
        """Bytes written since ever, nearly: enough to tell when the next snapshot is due."""
        view = self.appender.view
        return sum(segment.end_position for segment in view.closed) + view.active.end_position


def _end_of_damage(view: LogView, offset: int) -> int:
    """The next offset behind the damage at `offset` that can be read, in its segment or where the next one begins."""
    known = list(view.damage)
    for segment in view.segments:
        if segment.base_offset <= offset < segment.end_offset:
            walk = scan(segment.source.file(), segment.number, segment.header, segment.start(), segment.end_position)
            known += [found for found in walk if isinstance(found, Damage)]
    ends = [damage.end_offset for damage in known if damage.covers(offset) and damage.end_offset > offset]
    after = [segment.base_offset for segment in view.segments if segment.base_offset > offset]
    return min([*ends, *after, view.end_offset])
