"""The groups machine against a plain dict: any commands, in any rounds, and the same after any replay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.base import limits
from flowmesh.base.errors import LimitExceeded, NotFound
from flowmesh.groups import commands, events
from flowmesh.groups.commands import Command, CommitOffsets, DropGroup, DropGroupsOf, NoteTime
from flowmesh.groups.events import Event
from flowmesh.groups.machine import GroupsMachine
from flowmesh.groups.model import Group

STREAMS = st.integers(1, 3)
NAMES = st.sampled_from(["billing", "search", "a"])
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    st.builds(
        CommitOffsets,
        STREAMS,
        NAMES,
        st.dictionaries(st.integers(0, 2), st.integers(0, 9), max_size=3),
        st.sampled_from(["consumer", "spark", "archive"]),
        st.none() | st.integers(1, 50),
        st.none() | st.just("s3://cold"),
    ),
    st.builds(DropGroup, STREAMS, NAMES),
    st.builds(DropGroupsOf, STREAMS),
    st.builds(NoteTime),
)
ROUNDS = st.lists(st.lists(COMMANDS, max_size=5), max_size=12)


def model_apply(model: dict[Any, Any], command: Command) -> Any:
    """What the command says, done to a plain dict; the answer that is expected."""
    match command:
        case CommitOffsets(stream=stream, group=name):
            offsets = {**model.get((stream, name), ((), {}))[1], **command.offsets}
            model[stream, name] = ((command.kind, command.hold_ns, command.location), offsets)
            return model[stream, name]
        case DropGroup(stream=stream, group=name):
            return model.pop((stream, name), NotFound)
        case commands.DropGroupsOf(stream=gone):
            for key in [key for key in model if key[0] == gone]:
                del model[key]
    return None


def shown(group: Group) -> Any:
    return ((group.kind, group.hold_ns, group.location), group.offsets)


def state_of(machine: GroupsMachine) -> Any:
    assert all(machine.groups.values()), "a stream without groups is not kept"
    return {(group.stream, group.name): group for found in machine.groups.values() for group in found.values()}


def replayed(log: list[Event]) -> GroupsMachine:
    machine = GroupsMachine()
    for event in log:
        machine.apply(events.decode(events.encode(event)))
    return machine


@given(rounds=ROUNDS, carry_after=st.integers(0, 12), cut=st.integers(0, 20))
def test_it_does_what_a_dict_does_and_a_replay_of_its_log_does_the_same(
    rounds: list[list[Command]], carry_after: int, cut: int
) -> None:
    machine, model, ran_ns = GroupsMachine(), dict[Any, Any](), 0
    log: list[Event] = []
    since_carry: list[Event] = []
    for number, asked in enumerate(rounds):
        decision = machine.decide(asked, now_ns=1_000 + number, ran_ns=1 + number)
        for command, outcome in zip(asked, decision.outcomes, strict=True):
            expected = model_apply(model, command)
            if expected is NotFound:
                assert isinstance(outcome, NotFound)
            else:
                assert (shown(outcome) if isinstance(outcome, Group) else outcome) == expected
        for event in decision.events:
            machine.apply(event)
        if any(isinstance(command, CommitOffsets | NoteTime) for command in asked):
            ran_ns = 1 + number
        assert machine.ran_ns == ran_ns
        assert state_of(replayed([*machine.carried()])) == state_of(machine)
        assert replayed([*machine.carried()]).ran_ns == ran_ns
        log += decision.events
        since_carry += decision.events
        if number == carry_after:
            carried = list(machine.carried())
            log += carried[:cut]  # one that a crash cut short
            log += carried
            since_carry = [*carried]
    assert {key: shown(group) for key, group in state_of(machine).items()} == model
    for told in (log, since_carry):
        again = replayed(told)
        assert state_of(again) == state_of(machine)
        assert again.ran_ns == machine.ran_ns


def test_what_was_decided_and_not_applied_has_changed_nothing() -> None:
    machine = GroupsMachine()
    machine.decide([CommitOffsets(1, "a", {0: 5}, "consumer"), DropGroup(1, "a")], 1, 1)
    assert machine.groups == {}


def test_a_group_keeps_its_birthday_and_takes_the_time_of_its_last_commit() -> None:
    machine = GroupsMachine()
    for now in (10, 20):
        decision = machine.decide([CommitOffsets(1, "a", {0: now}, "consumer")], now, now + 1)
        machine.apply(decision.events[0])
    group = machine.find(1, "a")
    assert group is not None
    assert (group.created_ns, group.updated_ns, group.ran_ns) == (10, 20, 21)


def test_a_stream_has_so_many_groups_and_those_that_are_there_still_commit() -> None:
    machine = GroupsMachine()
    asked = [CommitOffsets(1, f"g{number}", {}, "consumer") for number in range(limits.GROUPS_PER_STREAM_MAX + 1)]
    decision = machine.decide([*asked, asked[0], DropGroup(1, "g0"), asked[-1]], 1, 1)
    refused = [number for number, outcome in enumerate(decision.outcomes) if isinstance(outcome, LimitExceeded)]
    assert refused == [limits.GROUPS_PER_STREAM_MAX]


@pytest.mark.parametrize("hold_ns, ran_ns, holds", [(None, 10, False), (5, 14, True), (5, 15, False)])
def test_a_hold_lasts_as_long_as_the_node_runs_after_the_last_commit(
    hold_ns: int | None, ran_ns: int, holds: bool
) -> None:
    group = Group(1, "a", "consumer", 1, 1, 10, {0: 1}, hold_ns)
    assert group.holds(ran_ns) is holds


@given(
    offsets=st.dictionaries(st.integers(0, 255), st.integers(0, 2**63 - 1)), location=st.none() | st.text(max_size=99)
)
def test_no_command_is_larger_in_the_log_than_it_says(offsets: dict[int, int], location: str | None) -> None:
    command = CommitOffsets(2**63, "n" * 64, offsets, "consumer", 2**62, location)
    (event,) = GroupsMachine().decide([command], 2**63 - 1, 2**63 - 1).events
    assert len(events.encode(event)) <= command.size
