"""The groups' partition: the groups machine on a log of its own, which is kept short by writing it anew.

The writer drives it in rounds, as it drives streams: commits that wait share one fsync. What was not synced yet is not
seen by anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from flowmesh.base.errors import CorruptData, FlowMeshError
from flowmesh.base.limits import CHAIN_LOCAL_ID_BYTES, GROUPS_CARRY_BYTES, GROUPS_NOTE_NS, GROUPS_PIECE_BYTES
from flowmesh.format import columns
from flowmesh.format.batch import Batch, BatchKind
from flowmesh.format.chain import checked
from flowmesh.groups import events
from flowmesh.groups.commands import Command, DropGroupsOf, NoteTime
from flowmesh.groups.events import Event
from flowmesh.groups.machine import GroupsMachine, Outcome
from flowmesh.log.appender import Appender
from flowmesh.log.open_log import open_log
from flowmesh.log.options import LogOptions
from flowmesh.log.retention import Retention
from flowmesh.node import paths
from flowmesh.ports.clock import Clock
from flowmesh.ports.disk import Disk
from flowmesh.ports.entropy import Entropy

_CARRIED = "carried"
_EVERYTHING = Retention(size_bytes=0)


class GroupsPartition:
    def __init__(self, clock: Clock, appender: Appender) -> None:
        self.appender = appender
        self.machine = GroupsMachine()
        self._clock = clock
        self._unsynced: list[Event] = []
        """Written, and applied once they are durable."""
        self._carry_at = GROUPS_CARRY_BYTES
        """How long the log may become before it is written anew."""
        for block in appender.view.blocks():
            for value in columns.decode(block.batch).values.items():
                self.machine.apply(events.decode(value))
        self._ran_before_ns = self.machine.ran_ns
        self._opened_ns = clock.monotonic_ns()

    def ran_ns(self) -> int:
        """How long the node has run, in all its life; downtime and jumps of the system's clock do not count.

        It stands still when the log has failed: nobody can commit, so no hold may run out.
        """
        if self.failure is not None:
            return self.machine.ran_ns
        return self._ran_before_ns + self._clock.monotonic_ns() - self._opened_ns

    def held(self, stream: int) -> dict[int, int]:
        """By partition: the lowest offset that a group of the stream keeps from retention."""
        ran_ns = self.ran_ns()
        held: dict[int, int] = {}
        for group in self.machine.of_stream(stream):
            if group.holds(ran_ns):
                for partition, offset in group.offsets.items():
                    held[partition] = min(held.get(partition, offset), offset)
        return held

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

    def write(self, group: Sequence[Command]) -> list[Outcome]:
        """One round. A sync has to follow before the next one, which decides by what this one changed."""
        decision = self.machine.decide(group, self._clock.wall_ns(), self.ran_ns())
        if not decision.events:
            return decision.outcomes
        (result,) = self.appender.write([_batch(map(events.encode, decision.events))])
        if isinstance(result, FlowMeshError):
            return [outcome if isinstance(outcome, FlowMeshError) else result for outcome in decision.outcomes]
        self._unsynced = decision.events
        return decision.outcomes

    def prepare(self, group: Sequence[Command]) -> None:
        """Nothing can be decided before what was written is synced, and so applied."""

    def sync_file(self) -> None:
        self.appender.sync_file()

    def poison(self, reason: str) -> None:
        self.appender.poison(reason)

    def complete_sync(self) -> None:
        self.appender.complete_sync()
        unsynced, self._unsynced = self._unsynced, []
        for event in unsynced:
            self.machine.apply(event)
        if self.appender.view.size_bytes >= self._carry_at:
            self._carry()

    # --- what the owner of the logs does ------------------------------------------------------------------------

    def execute(self, command: Command) -> Outcome:
        """One command for itself; returns once it is durable."""
        (outcome,) = self.write([command])
        if isinstance(outcome, FlowMeshError):
            raise outcome
        if self.dirty:
            self.sync_file()
            self.complete_sync()
        return outcome

    def keep_only(self, streams: Iterable[int]) -> None:
        """Forgets the groups of all other streams."""
        for stream in self.machine.groups.keys() - set(streams):
            self.execute(DropGroupsOf(stream))

    def note_time(self) -> None:
        """Writes down how long the node has run, now and then: after a crash, holds last longer by what was not."""
        if self.ran_ns() - self.machine.ran_ns >= GROUPS_NOTE_NS and self._has_holds():
            self.execute(NoteTime())

    def close(self) -> None:
        if self.failure is None and self._has_holds():
            with suppress(FlowMeshError):  # a full disk; the holds last a little longer
                self.execute(NoteTime())
        self.appender.close()

    def _has_holds(self) -> bool:
        ran_ns = self.ran_ns()
        return any(group.holds(ran_ns) for of_stream in self.machine.groups.values() for group in of_stream.values())

    # --- keeping the log short ----------------------------------------------------------------------------------

    def _carry(self) -> None:
        """Writes all that is known at the beginning of a new segment, and lets go of those before it.

        A crash in between costs nothing but space: what was carried only says again what was known.
        """
        try:
            self.appender.roll()
            begin = self.appender.written_end
            for piece in _pieces(self.machine.carried()):
                (result,) = self.appender.write([piece])
                if isinstance(result, FlowMeshError):
                    raise result
            self.appender.holds[_CARRIED] = begin
            self.appender.trim(_EVERYTHING)  # which syncs first
            self._carry_at = max(GROUPS_CARRY_BYTES, 3 * self.appender.view.size_bytes)
        except FlowMeshError:  # the disk is full, or the log has failed and says so to whoever commits next
            self._carry_at = 2 * self.appender.view.size_bytes


def open_groups(disk: Disk, clock: Clock, entropy: Entropy, directory: str) -> GroupsPartition:
    """The log in its place under the data directory, made there when it is missing."""
    place = f"{directory}/{paths.GROUPS}"
    identity = checked(entropy.random_bytes(CHAIN_LOCAL_ID_BYTES), "metadata:groups:0", clock.wall_ns())
    # It may use the reserve: readers that go on are what lets retention free a full disk.
    options = LogOptions(disk_reserve_bytes=0)
    try:
        return GroupsPartition(clock, open_log(disk, place, clock, options, create=identity))
    except CorruptData as error:
        raise CorruptData(
            error.message,
            hint=f"Restore {place} from a copy; or move it away, and all groups are forgotten, with their holds.",
        ) from error


def _pieces(carried: Iterator[Event]) -> Iterator[Batch]:
    values: list[bytes] = []
    size = 0
    for event in carried:
        values.append(events.encode(event))
        size += len(values[-1])
        if size >= GROUPS_PIECE_BYTES:
            yield _batch(values)
            values, size = [], 0
    if values:
        yield _batch(values)


def _batch(values: Iterable[bytes]) -> Batch:
    return columns.encode(list(values), kind=BatchKind.CONTROL)
