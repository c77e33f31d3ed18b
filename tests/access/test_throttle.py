"""Guessing gets slow: after so many failures a peer is not heard, until its minute is over."""

import pytest

from flowmesh.access import throttle
from flowmesh.access.throttle import FAILURES_MAX, WINDOW_NS, Throttle


def failed(times: int, at_ns: int = 0) -> Throttle:
    counted = Throttle()
    for _ in range(times):
        counted.failed("peer", at_ns)
    return counted


def test_a_few_failures_are_forgiven() -> None:
    assert not failed(FAILURES_MAX - 1).refuses("peer", 1)


def test_too_many_are_not() -> None:
    counted = failed(FAILURES_MAX)
    assert counted.refuses("peer", 1)
    assert counted.refuses("peer", WINDOW_NS - 1)


def test_other_peers_are_heard() -> None:
    assert not failed(FAILURES_MAX).refuses("other", 1)


def test_after_the_window_counting_begins_anew() -> None:
    counted = failed(FAILURES_MAX)
    assert not counted.refuses("peer", WINDOW_NS)
    counted.failed("peer", WINDOW_NS)
    assert not counted.refuses("peer", WINDOW_NS + 1)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "PEERS_MAX", 10)
    counted = failed(FAILURES_MAX)
    for number in range(10):
        counted.failed(f"other-{number}", 0)
    assert not counted.refuses("peer", 1), "the one that failed longest ago was forgotten"
