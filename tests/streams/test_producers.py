"""What a producer sent last is known: what comes again is found, what comes too early or from before is refused."""

import pytest

from flowmesh.base.errors import OutOfOrderSequence, ProducerFenced
from flowmesh.streams import producers
from flowmesh.streams.producers import REMEMBERED_BATCHES, Producers, SentBatch
from tests.streams.batches import header


def told(*batches: tuple[int, int], epoch: int = 0) -> Producers:
    """Producers that were told of these batches (first sequence, count), one record after the other from offset 0."""
    known = Producers()
    offset = 0
    for sequence, count in batches:
        known.apply(header(sequence, count, epoch=epoch), offset)
        offset += count
    return known


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert Producers().judge(header(4711)) is None


def test_the_next_batch_in_order_is_new() -> None:
    assert told((0, 3), (3, 2)).judge(header(5)) is None


def test_a_batch_that_comes_again_is_found_where_it_was_put() -> None:
    assert told((0, 3), (3, 2)).judge(header(0, 3)) == SentBatch(0, 3, 0)
    assert told((0, 3), (3, 2)).judge(header(3, 2)) == SentBatch(3, 2, 3)


@pytest.mark.parametrize("sequence, count", [(6, 1), (3, 1), (3, 3), (0, 2)])
def test_a_gap_and_a_batch_cut_otherwise_are_refused(sequence: int, count: int) -> None:
    with pytest.raises(OutOfOrderSequence, match="5 comes next"):
        told((0, 3), (3, 2)).judge(header(sequence, count))


def test_only_the_last_few_batches_are_remembered() -> None:
    batches = [(number, 1) for number in range(REMEMBERED_BATCHES + 1)]
    known = told(*batches)
    assert known.judge(header(1)) == SentBatch(1, 1, 1)
    with pytest.raises(OutOfOrderSequence):
        known.judge(header(0))


def test_a_newer_epoch_begins_anew_and_fences_the_older_one() -> None:
    known = told((0, 3))
    assert known.judge(header(100, epoch=1)) is None
    known.apply(header(100, epoch=1), 3)
    with pytest.raises(ProducerFenced):
        known.judge(header(3))
    assert known.judge(header(101, epoch=1)) is None


def test_producers_do_not_know_each_other() -> None:
    assert told((0, 3)).judge(header(0, 3, producer=8)) is None


def test_a_snapshot_brings_everything_back_in_order_of_use() -> None:
    known = told((0, 3), (3, 2))
    known.apply(header(0, producer=8), 5)
    restored = Producers()
    restored.restore(known.snapshot())
    assert restored.snapshot() == known.snapshot()
    assert restored.judge(header(3, 2)) == SentBatch(3, 2, 3)


def test_the_producer_that_was_silent_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 2)
    known = Producers()
    for producer in (1, 2, 1, 3):
        known.apply(header(0 if producer != 1 or not len(known) else 1, producer=producer), 0)
    assert len(known) == 2
    assert known.judge(header(55, producer=2)) is None
    with pytest.raises(OutOfOrderSequence):
        known.judge(header(55, producer=1))


def test_who_counts_epochs_is_not_pushed_out_by_those_that_come_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 2)
    known = told((0, 3), epoch=4)
    for producer in range(100, 110):
        known.apply(header(0, producer=producer), 0)
    assert len(known) == 3
    assert known.judge(header(0, 3, epoch=4)) == SentBatch(0, 3, 0)
    restored = Producers()
    restored.restore(known.snapshot())
    assert restored.snapshot() == known.snapshot()
    for producer in (200, 201):
        restored.apply(header(0, producer=producer, epoch=1), 0)
    assert restored.judge(header(55, epoch=4)) is None


def test_a_refusal_says_what_comes_next_and_since_where() -> None:
    known = told((0, 3))
    known.apply(header(0, 3, epoch=1), 40)
    known.apply(header(3, 2, epoch=1), 50)
    with pytest.raises(OutOfOrderSequence) as raised:
        known.judge(header(1, 3, epoch=1))
    assert (raised.value.next_sequence, raised.value.since_offset) == (5, 40)
