"""The groups as a machine: rules in `decide`, the only changes in `apply`. It knows streams by their ids alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flowmesh.base.errors import FlowMeshError, LimitExceeded, NotFound
from flowmesh.base.limits import GROUPS_PER_STREAM_MAX
from flowmesh.groups import commands, events
from flowmesh.groups.commands import Command, CommitOffsets
from flowmesh.groups.events import Event, OffsetsCommitted
from flowmesh.groups.model import Group

Outcome = Group | FlowMeshError | None
"""The group as a command leaves it, or why it was refused; None when there is nothing to say."""


class GroupsDecision(NamedTuple):
    events: list[Event]
    outcomes: list[Outcome]
    """One for each command."""


class GroupsMachine:
    def __init__(self) -> None:
        self.groups: dict[int, dict[str, Group]] = {}
        """By the id of the stream and the name of the group."""
        self.ran_ns = 0
        """How long the node has run, as far as it was written down."""

    def find(self, stream: int, name: str) -> Group | None:
        return self.groups.get(stream, {}).get(name)

    def of_stream(self, stream: int) -> list[Group]:
        """Safe to call while another thread applies events."""
        return list(self.groups.get(stream, {}).values())

    # --- decide -------------------------------------------------------------------------------------------------

    def decide(self, asked: Sequence[Command], now_ns: int, ran_ns: int) -> GroupsDecision:
        """A round of commands, each decided as if those before it had been applied."""
        deciding = _Round(self, now_ns, ran_ns)
        outcomes: list[Outcome] = []
        for command in asked:
            try:
                outcomes.append(deciding.take(command))
            except FlowMeshError as error:
                outcomes.append(error)
        return GroupsDecision(deciding.events, outcomes)

    # --- apply --------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        match event:
            case OffsetsCommitted():
                of_stream = self.groups.setdefault(event.stream, {})
                of_stream[event.group] = _committed(of_stream.get(event.group), event)
                self.ran_ns = max(self.ran_ns, event.ran_ns)
            case events.GroupDeleted(stream=stream, group=name):
                of_stream = self.groups.get(stream, {})
                of_stream.pop(name, None)
                if not of_stream:
                    self.groups.pop(stream, None)
            case events.GroupsForgotten(stream=stream):
                self.groups.pop(stream, None)
            case events.TimeNoted(ran_ns=ran_ns):
                self.ran_ns = max(self.ran_ns, ran_ns)
            case events.GroupCarried(group=group):
                self.groups.setdefault(group.stream, {})[group.name] = group

    def carried(self) -> Iterator[Event]:
        """All that is known, as events. Applied in order they lead to the same, also on top of what they repeat."""
        yield events.TimeNoted(self.ran_ns)
        for of_stream in self.groups.values():
            for group in of_stream.values():
                yield events.GroupCarried(group)


class _Round:
    """Commands that are decided together."""

    def __init__(self, machine: GroupsMachine, now_ns: int, ran_ns: int) -> None:
        self.events: list[Event] = []
        self._machine = machine
        self._now_ns = now_ns
        self._ran_ns = ran_ns
        self._changed: dict[int, dict[str, Group]] = {}
        """Of the streams that this round touches: all groups as they will be."""

    def take(self, command: Command) -> Outcome:
        match command:
            case CommitOffsets():
                return self._commit(command)
            case commands.DropGroup(stream=stream, group=name):
                gone = self._of(stream).pop(name, None)
                if gone is None:
                    raise NotFound(f"there is no group {name!r} of this stream.", field="group")
                self.events.append(events.GroupDeleted(stream, name))
                return gone
            case commands.DropGroupsOf(stream=stream):
                if self._of(stream):
                    self._changed[stream] = {}
                    self.events.append(events.GroupsForgotten(stream))
            case commands.NoteTime():
                self.events.append(events.TimeNoted(self._ran_ns))
        return None

    def _commit(self, command: CommitOffsets) -> Group:
        of_stream = self._of(command.stream)
        known = of_stream.get(command.group)
        if known is None and len(of_stream) >= GROUPS_PER_STREAM_MAX:
            raise LimitExceeded(
                f"a stream has at most {GROUPS_PER_STREAM_MAX} groups.",
                field="group",
                hint="Delete those that nobody uses any more.",
            )
        event = OffsetsCommitted(
            command.stream, command.group, command.offsets, self._now_ns, self._ran_ns,
            command.kind, command.hold_ns, command.location,
        )  # fmt: skip
        self.events.append(event)
        group = of_stream[command.group] = _committed(known, event)
        return group

    def _of(self, stream: int) -> dict[str, Group]:
        found = self._changed.get(stream)
        if found is None:
            found = self._changed[stream] = dict(self._machine.groups.get(stream, {}))
        return found


def _committed(known: Group | None, event: OffsetsCommitted) -> Group:
    return Group(
        event.stream,
        event.group,
        event.kind,
        known.created_ns if known is not None else event.at_ns,
        event.at_ns,
        event.ran_ns,
        {**known.offsets, **event.offsets} if known is not None else event.offsets,
        event.hold_ns,
        event.location,
    )
