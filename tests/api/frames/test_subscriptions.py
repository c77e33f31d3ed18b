"""Pushes: from where, how far ahead, what stalls them, and what ends them."""

import time
from pathlib import Path
from typing import Any

import pytest

from flowmesh.base.errors import ErrorCode
from flowmesh.client.received import received
from flowmesh.format.frame import Frame, FrameFlag, FrameKind
from tests.api.frames.node_thread import NodeThread, node_thread
from tests.api.frames.test_operations import wire_batch
from tests.api.frames.wire import PLACE, Wire, content


def fill(wire: Wire, name: str, batches: int, records: int = 10) -> None:
    for number in range(batches):
        body = wire_batch([b"%d-%d" % (number, row) for row in range(records)])
        assert "appends" in wire.call("stream.append", body, flags=FrameFlag.BATCH, **PLACE, name=name)


def subscribe(wire: Wire, name: str, **fields: Any) -> int:
    number = wire.ask("stream.subscribe", **PLACE, name=name, **fields)
    answer = wire.receive()
    assert (answer.kind, answer.correlation) == (FrameKind.REPLY, number), content(answer)
    return number


def acknowledge(wire: Wire, number: int, offset: int) -> None:
    wire.send(FrameKind.ACK, 0, {"offset": offset}, number=number)


def pushed(answer: Frame, offset: int) -> list[bytes | None]:
    assert answer.kind == FrameKind.PUSH, content(answer)
    return [value for batch in received(0, answer.body, offset, verify=True) for value in batch.values()]


@pytest.mark.parametrize(
    "start, first", [({"at": "earliest"}, 0), ({"offset": 13}, 13), ({"at": "latest"}, 30), ({}, 30)]
)
def test_pushes_begin_where_they_were_asked_to(node: NodeThread, wire: Wire, start: dict[str, Any], first: int) -> None:
    name = f"starts-{first}-{len(start)}"
    wire.create(name)
    fill(wire, name, 3)
    with Wire(node.port, node.token) as other:
        subscribe(other, name, **start)
        fill(wire, name, 1)
        values: list[bytes | None] = []
        while len(values) < 40 - first:
            values += pushed(other.receive(), first + len(values))
    assert values == [b"%d-%d" % (batch, row) for batch in (0, 1, 2, 0) for row in range(10)][first:]


def test_no_more_than_the_window_is_under_way(wire: Wire) -> None:
    wire.create("window")
    fill(wire, "window", 10)
    number = subscribe(wire, "window", at="earliest", window=25)
    assert content(wire.receive())["next_offset"] == 20
    assert "id" in wire.call("node.describe")  # and nothing was pushed before this answer
    acknowledge(wire, number, 5)
    assert content(wire.receive())["next_offset"] == 30
    acknowledge(wire, number, 30)
    assert content(wire.receive())["next_offset"] == 50


def test_an_entry_larger_than_the_window_goes_alone(wire: Wire) -> None:
    wire.create("narrow")
    fill(wire, "narrow", 2)
    number = subscribe(wire, "narrow", at="earliest", window=3)
    assert content(wire.receive())["next_offset"] == 10
    acknowledge(wire, number, 9)
    assert "id" in wire.call("node.describe")
    acknowledge(wire, number, 10)
    assert content(wire.receive())["next_offset"] == 20


def test_cancel_is_answered_and_ends_the_pushes(wire: Wire) -> None:
    wire.create("cancelled")
    number = subscribe(wire, "cancelled")
    wire.send(FrameKind.CANCEL, 0, number=number)
    answer = wire.receive()
    assert (answer.kind, answer.correlation, answer.header) == (FrameKind.END, number, b"")
    fill(wire, "cancelled", 1)
    acknowledge(wire, number, 1)  # too late, and nobody's fault
    assert "id" in wire.call("node.describe")


def test_a_deleted_stream_ends_its_subscriptions(node: NodeThread, wire: Wire) -> None:
    wire.create("doomed")
    with Wire(node.port, node.token) as other:
        subscribe(other, "doomed")
        assert wire.call("stream.delete", **PLACE, name="doomed") == {}
        answer = other.receive()
        assert (answer.kind, content(answer)["code"]) == (FrameKind.END, ErrorCode.NOT_FOUND)


@pytest.mark.parametrize("window", [0, -1, 10**7])
def test_a_window_has_bounds(wire: Wire, window: int) -> None:
    if wire.call("stream.describe", **PLACE, name="bounds").get("code"):
        wire.create("bounds")
    assert wire.call("stream.subscribe", **PLACE, name="bounds", window=window)["code"] == ErrorCode.BAD_REQUEST


def test_what_was_never_pushed_cannot_be_acknowledged(node: NodeThread, wire: Wire) -> None:
    wire.create("ahead")
    with Wire(node.port, node.token) as other:
        acknowledge(other, subscribe(other, "ahead"), 1)
        assert other.last_words()["code"] == ErrorCode.BAD_REQUEST


def test_a_connection_has_so_many_subscriptions_and_no_more(wire: Wire) -> None:
    wire.create("many")
    for _ in range(100):
        subscribe(wire, "many")
    assert wire.call("stream.subscribe", **PLACE, name="many")["code"] == ErrorCode.LIMIT_EXCEEDED


def test_a_subscriber_that_acknowledges_nothing_is_told_where_to_go_on(tmp_path: Path) -> None:
    with node_thread(tmp_path / "data") as node, Wire(node.port, node.token) as wire:
        node.running.frames.context.stall_ms = 200
        wire.create("stalled")
        fill(wire, "stalled", 5)
        number = subscribe(wire, "stalled", at="earliest", window=20)
        assert content(wire.receive())["next_offset"] == 20
        answer = wire.receive()
        assert (answer.kind, answer.correlation) == (FrameKind.END, number)
        ended = content(answer)
        assert (ended["code"], ended["offset"]) == (ErrorCode.SUBSCRIPTION_STALLED, 20)
        wire.ask("stream.read", **PLACE, name="stalled", offset=ended["offset"])
        assert content(wire.receive())["next_offset"] == 50
        again = subscribe(wire, "stalled", offset=50)
        fill(wire, "stalled", 1)
        found = [wire.receive() for _ in range(1)]
        assert found[0].correlation == again


def test_a_subscriber_that_does_not_read_costs_little_and_is_told(tmp_path: Path) -> None:
    """The node holds what fits its write buffer, and not the whole window."""
    with node_thread(tmp_path / "data") as node, Wire(node.port, node.token) as wire:
        node.running.frames.context.stall_ms = 300
        wire.create("deaf")
        for _ in range(40):
            assert "appends" in wire.call("stream.append", bytes(1_000_000), **PLACE, name="deaf")
        deaf = Wire(node.port, node.token)
        subscribe(deaf, "deaf", at="earliest", window=1000)
        time.sleep(1.0)
        assert "id" in wire.call("node.describe")
        pushes = 0
        while (answer := deaf.receive()).kind == FrameKind.PUSH:
            pushes += 1
        ended = content(answer)
        assert (ended["code"], ended["offset"]) == (ErrorCode.SUBSCRIPTION_STALLED, pushes)
        assert pushes < 40
        deaf.socket.close()
