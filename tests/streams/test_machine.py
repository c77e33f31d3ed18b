"""Given what was applied, when commands come in one round, then so many batches are written and each has its place."""

from collections.abc import Sequence

import pytest

from flowmesh.base.errors import FlowMeshError, OutOfOrderSequence, ProducerFenced
from flowmesh.format import columns
from flowmesh.format.batch import Batch
from flowmesh.streams.machine import AppendBatch, AppendCommand, AppendRecord, Decision, Placed, StreamMachine
from flowmesh.streams.producers import SentBatch
from tests.streams.batches import sent

NOW = 1_767_225_600_000_000_000


def given(*batches: Batch) -> StreamMachine:
    machine = StreamMachine()
    offset = 0
    for batch in batches:
        machine.apply(batch.header, offset)
        offset += batch.header.count
    return machine


def when(machine: StreamMachine, *commands: AppendCommand) -> Decision:
    before = machine.snapshot()
    decision = machine.decide(commands, NOW)
    assert machine.snapshot() == before, "deciding changed the machine"
    assert len(decision.outcomes) == len(commands)
    return decision


def values(batch: Batch) -> Sequence[bytes | None]:
    return columns.decode(batch).values.items()


def test_single_records_of_a_round_become_one_batch() -> None:
    decision = when(given(), AppendRecord(b"a"), AppendRecord(b"b", b"key"), AppendRecord(b"c"))
    assert [values(batch) for batch in decision.batches] == [[b"a", b"b", b"c"]]
    assert decision.outcomes == [Placed(0, 0, 1), Placed(0, 1, 1), Placed(0, 2, 1)]


def test_records_and_batches_keep_their_order() -> None:
    whole = columns.encode([b"x", b"y"])
    decision = when(given(), AppendRecord(b"a"), AppendBatch(whole), AppendRecord(b"b"), AppendRecord(b"c"))
    assert [values(batch) for batch in decision.batches] == [[b"a"], [b"x", b"y"], [b"b", b"c"]]
    assert decision.outcomes == [Placed(0, 0, 1), Placed(1, 0, 2), Placed(2, 0, 1), Placed(2, 1, 1)]


def test_columns_that_nobody_uses_are_left_out() -> None:
    plain, rich = (
        when(given(), *commands).batches[0]
        for commands in (
            [AppendRecord(b"a"), AppendRecord(b"b")],
            [AppendRecord(b"a"), AppendRecord(b"b", b"k", ((b"h", b"v"),), NOW - 5)],
        )
    )
    assert columns.decode(plain).keys is None
    assert columns.decode(plain).header_bounds is None
    decoded = columns.decode(rich).records()
    assert [(record.key, record.headers) for record in decoded] == [(None, ()), (b"k", ((b"h", b"v"),))]
    assert [record.time_ns for record in decoded] == [NOW, NOW - 5]


def test_a_batch_of_an_earlier_round_that_comes_again_is_not_written() -> None:
    decision = when(given(sent(0, 3)), AppendBatch(sent(0, 3)))
    assert decision.batches == []
    assert decision.outcomes == [SentBatch(0, 3, 0)]


def test_a_batch_that_comes_twice_in_one_round_is_written_once() -> None:
    decision = when(given(), *[AppendBatch(sent(0, 3))] * 3, AppendBatch(sent(3, 2)), AppendBatch(sent(0, 3)))
    assert [batch.header.first_sequence for batch in decision.batches] == [0, 3]
    again = Placed(0, 0, 3, repeated=True)
    assert decision.outcomes == [Placed(0, 0, 3), again, again, Placed(1, 0, 2), again]


def test_many_batches_in_order_pass_in_one_round_and_a_gap_does_not() -> None:
    decision = when(given(sent(0)), *(AppendBatch(sent(number)) for number in (1, 2, 3, 5, 4)))
    assert [batch.header.first_sequence for batch in decision.batches] == [1, 2, 3, 4]
    assert isinstance(decision.outcomes[3], OutOfOrderSequence)
    assert decision.outcomes[4] == Placed(3, 0, 1)


def test_a_new_epoch_fences_the_old_one_within_the_round() -> None:
    decision = when(given(sent(0)), AppendBatch(sent(0, epoch=1)), AppendBatch(sent(1)), AppendBatch(sent(1, epoch=1)))
    assert [outcome if isinstance(outcome, Placed) else type(outcome) for outcome in decision.outcomes] == [
        Placed(0, 0, 1),
        ProducerFenced,
        Placed(1, 0, 1),
    ]


def test_one_refused_command_keeps_no_other_out() -> None:
    decision = when(given(sent(0)), AppendRecord(b"a"), AppendBatch(sent(9)), AppendRecord(b"b"))
    assert [values(batch) for batch in decision.batches] in ([[b"a", b"b"]], [[b"a"], [b"b"]])
    assert isinstance(decision.outcomes[1], FlowMeshError)
    assert all(isinstance(decision.outcomes[place], Placed) for place in (0, 2))


@pytest.mark.parametrize("cut", range(7))
def test_a_restart_from_any_snapshot_knows_the_same_repetitions(cut: int) -> None:
    history = [sent(number * 2, 2) for number in range(6)]
    machine = given(*history[:cut])
    restarted = StreamMachine()
    restarted.restore(machine.snapshot())
    for number, batch in enumerate(history[cut:], cut):
        restarted.apply(batch.header, number * 2)
    assert restarted.snapshot() == given(*history).snapshot()
    assert when(restarted, AppendBatch(history[-1])).outcomes == [SentBatch(10, 2, 10)]


@pytest.mark.parametrize("known_before, since", [(False, None), (True, 30)])
def test_a_refusal_within_a_round_tells_only_offsets_that_are_known(known_before: bool, since: int | None) -> None:
    machine = StreamMachine()
    first = 0
    if known_before:
        machine.apply(sent(0, 2).header, 30)
        first = 2
    outcomes = machine.decide([AppendBatch(sent(first, 2)), AppendBatch(sent(first + 1, 4))], 0).outcomes
    assert isinstance(outcomes[1], OutOfOrderSequence)
    assert (outcomes[1].next_sequence, outcomes[1].since_offset) == (first + 2, since)
