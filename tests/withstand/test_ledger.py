"""The ledger finds what the kill tests are there to find: what is lost, doubled, moved, torn, or was never sent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.withstand.ledger import Ledger, Shipment


def ledger_of(stored: Sequence[bytes], *, said_at: int | None) -> tuple[Ledger, list[Shipment]]:
    """A ledger of one partition and a shipment of `a` and `b`, with what was then read."""
    ledger = Ledger(1)
    shipment = ledger.send(0, [b"a", b"b"])
    if said_at is not None:
        shipment.base_offset = said_at
    ledger.take({0: list(enumerate(stored))}, "now")
    return ledger, ledger.said()


def test_what_is_where_it_was_said_to_be_is_right() -> None:
    ledger, said = ledger_of([b"a", b"b"], said_at=0)
    ledger.check(said, "now")
    ledger.require_nothing_else()
    assert (ledger.acknowledged, ledger.said(), ledger.unknown(), ledger.ends()) == (2, [], [], [2])


@pytest.mark.parametrize("stored", [[], [b"a"], [b"b", b"a"], [b"a", b"x", b"b"], [b"x", b"a", b"b"]])
def test_what_is_lost_torn_or_moved_is_found(stored: list[bytes]) -> None:
    ledger, said = ledger_of(stored, said_at=0)
    with pytest.raises(AssertionError, match="said to be"):
        ledger.check(said, "now")


@pytest.mark.parametrize("stored", [[], [b"a", b"b"], [b"x", b"a", b"b"]])
def test_what_was_not_answered_may_be_there_or_not(stored: list[bytes]) -> None:
    ledger, said = ledger_of(stored, said_at=None)
    ledger.check(said, "now")
    assert len(ledger.unknown()) == 1


@pytest.mark.parametrize("stored", [[b"a"], [b"b"], [b"b", b"a"], [b"a", b"x", b"b"]])
def test_what_was_not_answered_is_not_there_in_part(stored: list[bytes]) -> None:
    ledger, said = ledger_of(stored, said_at=None)
    with pytest.raises(AssertionError):
        ledger.check(said, "now")


def test_what_is_there_twice_is_found() -> None:
    with pytest.raises(AssertionError, match="again"):
        ledger_of([b"a", b"b", b"a"], said_at=0)


def test_a_gap_is_found() -> None:
    with pytest.raises(AssertionError, match="follows"):
        Ledger(1).take({0: [(1, b"a")]}, "now")


def test_what_never_left_is_not_there() -> None:
    ledger, said = ledger_of([b"a", b"b"], said_at=None)
    ledger.unknown()[0].impossible = True
    with pytest.raises(AssertionError, match="nothing was listening"):
        ledger.check(said, "now")


def test_what_nobody_sent_is_found() -> None:
    ledger, _ = ledger_of([b"x"], said_at=None)
    with pytest.raises(AssertionError, match="nobody sent"):
        ledger.require_nothing_else()
