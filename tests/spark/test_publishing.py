"""A query's position as a group: said at once, again while idle, through a node that is away, and never taken back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from flowmesh.client import connect_blocking
from flowmesh.operations.messages import GroupDescription
from flowmesh.spark import publishing
from flowmesh.spark.errors import Condition, FlowMeshSparkError
from flowmesh.spark.options import NodeAccess, Secret, StreamName
from flowmesh.spark.publishing import Publisher
from flowmesh.testing import NodeProcess
from tests.spark.streams import Stream

HOUR_NS = 3600 * 10**9
PATIENCE_S = 60


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "REFRESH_S", 0.2)
    monkeypatch.setattr(publishing, "PAUSE_S", 0.05)


@contextmanager
def publishing_of(stream: Stream, group: str, token: str | None = None) -> Iterator[Publisher]:
    access = NodeAccess(stream.node.url, Secret(token or stream.node.token), None, None, 10**9)
    publisher = Publisher(access, StreamName("default", "default", stream.name), group, HOUR_NS)
    try:
        yield publisher
    finally:
        publisher.close()


def group_of(stream: Stream, name: str) -> GroupDescription:
    with connect_blocking(stream.node.url, token=stream.node.token) as client:
        return client.stream(stream.name).group(name)


def offset_of(stream: Stream, name: str) -> int:
    return group_of(stream, name).partitions[0].offset


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def test_a_position_is_said_at_once_and_again_while_nothing_moves(stream: Stream) -> None:
    stream.fill(1, 20)
    with publishing_of(stream, "idle") as publisher:
        publisher.start({0: 5})
        first = group_of(stream, "idle")
        assert (first.kind, first.hold_s, first.partitions[0].offset) == ("spark", 3600, 5)
        until(lambda: group_of(stream, "idle").updated > first.updated)
        publisher.publish({0: 12})
        publisher.flush()
        assert offset_of(stream, "idle") == 12
        publisher.publish({0: 7})
        publisher.publish({0: 15})
    assert offset_of(stream, "idle") == 15, "closing says what was left to say"


def test_a_node_that_is_away_is_told_later(own_node: NodeProcess) -> None:
    stream = Stream.create(own_node, "away")
    stream.fill(1, 20)
    with publishing_of(stream, "later") as publisher:
        publisher.start({0: 1})
        own_node.kill()
        publisher.publish({0: 9})
        own_node.start()
        until(lambda: offset_of(stream, "later") == 9)


def test_a_group_that_cannot_be_had_is_an_error_before_anything_is_read(stream: Stream) -> None:
    with publishing_of(stream, "g", "aaaaaaaaaaaaaaaa.wrong") as publisher:
        with pytest.raises(FlowMeshSparkError) as caught:
            publisher.start({0: 0})
        assert caught.value.condition is Condition.TOKEN_REFUSED
    with publishing_of(stream, "No Name") as publisher, pytest.raises(FlowMeshSparkError, match="No Name"):
        publisher.start({0: 0})
