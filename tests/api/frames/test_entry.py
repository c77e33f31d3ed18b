"""The way in and out: hello, tokens that end while a connection lives, throttling, deadlines, limits, drains."""

import time
from pathlib import Path

import pytest

from flowmesh.base.errors import ErrorCode
from flowmesh.format.frame import FrameKind
from tests.api.frames.node_thread import NodeThread, node_thread
from tests.api.frames.test_pipelining import appends, offsets
from tests.api.frames.wire import PLACE, Wire, content


@pytest.mark.parametrize("token", ["", "x", "a.b", "é.é", "." * 300, "id.secret\n"])
def test_a_bad_token_gets_an_error_and_the_end(node: NodeThread, token: str) -> None:
    with Wire(node.port, source="127.0.0.2") as wire:
        wire.send(FrameKind.HELLO, 0, {"token": token})
        assert wire.last_words()["code"] == ErrorCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    "kind, header",
    [
        (FrameKind.REQUEST, {}),
        (FrameKind.PING, None),
        (FrameKind.ACK, {"offset": 1}),
        (FrameKind.REPLY, {}),
        (FrameKind.HELLO, {"token": 5}),
        (FrameKind.HELLO, {"token": "a.b", "more": 1}),
        (FrameKind.HELLO, None),
    ],
)
def test_nothing_goes_before_a_good_hello(node: NodeThread, kind: int, header: object) -> None:
    with Wire(node.port) as wire:
        wire.send(kind, 1, header)
        assert wire.last_words()["code"] in (ErrorCode.UNAUTHENTICATED, ErrorCode.BAD_REQUEST)


def test_a_stranger_may_send_no_large_frame(node: NodeThread) -> None:
    with Wire(node.port) as wire:
        wire.send(FrameKind.HELLO, 0, {"token": "x" * 9000})
        assert wire.last_words()["code"] == ErrorCode.TOO_LARGE


def test_the_welcome_says_what_a_client_has_to_know(node: NodeThread) -> None:
    with Wire(node.port) as wire:
        wire.send(FrameKind.HELLO, 0, {"token": node.token, "client": "test/1"})
        welcome = content(wire.receive())
        assert welcome["protocol"] == 1
        assert set(welcome) == {"node", "version", "protocol", "frame_bytes_max", "in_flight_max", "idle_ms"}


@pytest.mark.parametrize("act", ["append", "run", "ping", "nothing"])
def test_a_revoked_token_ends_its_connections(node: NodeThread, wire: Wire, act: str) -> None:
    if wire.call("stream.describe", **PLACE, name="revoking").get("code"):
        wire.create("revoking")
    made = wire.call("token.create", tenant="default", permissions=["stream.write", "stream.read"])
    with Wire(node.port, made["token"]) as other:
        assert "appends" in other.call("stream.append", b"", **PLACE, name="revoking")
        subscribed = other.call("stream.subscribe", **PLACE, name="revoking", at="latest")
        assert "offset" in subscribed
        assert wire.call("token.revoke", id=made["id"]) == {}
        match act:
            case "append":
                other.ask("stream.append", b"", **PLACE, name="revoking")
            case "run":
                other.socket.sendall(appends({**PLACE, "name": "revoking"}, 100, 50))
            case "ping":
                other.send(FrameKind.PING, 0)
        assert other.last_words()["code"] == ErrorCode.UNAUTHENTICATED


def test_an_expired_token_ends_its_connections(node: NodeThread, wire: Wire) -> None:
    made = wire.call("token.create", tenant="default", permissions=["stream.read"], expires_in_s=1)
    with Wire(node.port, made["token"]) as other:
        assert "streams" in other.call("stream.list", **PLACE)
        time.sleep(1.1)
        other.ask("stream.list", **PLACE)
        assert other.last_words()["code"] == ErrorCode.UNAUTHENTICATED


def test_a_second_hello_brings_the_rotated_token(node: NodeThread, wire: Wire) -> None:
    made = wire.call("token.create", tenant="default", permissions=["stream.read"])
    with Wire(node.port, made["token"]) as other:
        rotated = wire.call("token.rotate", id=made["id"], overlap_s=60)
        other.send(FrameKind.HELLO, 0, {"token": rotated["token"]})
        assert other.receive().kind == FrameKind.REPLY
        wire.call("token.revoke", id=made["id"])
        assert "streams" in other.call("stream.list", **PLACE)


def test_guessing_secrets_gets_slow(node: NodeThread, wire: Wire) -> None:
    made = wire.call("token.create", tenant="default", permissions=["stream.read"])
    codes = []
    for _ in range(25):
        with Wire(node.port, source="127.0.0.9") as other:
            other.send(FrameKind.HELLO, 0, {"token": made["id"] + ".guess"})
            codes.append(other.last_words()["code"])
    assert codes[0] == ErrorCode.UNAUTHENTICATED
    assert codes[-1] == ErrorCode.TOO_MANY_REQUESTS
    with Wire(node.port, source="127.0.0.9") as other:
        other.send(FrameKind.HELLO, 0, {"token": node.token})
        assert other.receive().kind == FrameKind.REPLY


def test_deadlines_end_whoever_keeps_silent_or_sends_too_slowly(tmp_path: Path) -> None:
    with node_thread(tmp_path / "data") as node:
        context = node.running.frames.context
        context.hello_ms = context.idle_ms = context.unfinished_ms = 300
        with Wire(node.port) as silent, Wire(node.port, node.token) as idle, Wire(node.port, node.token) as slow:
            assert silent.last_words()["code"] == ErrorCode.TIMED_OUT
            for _ in range(6):
                slow.socket.sendall(b"\x64\x00" if _ == 0 else b"\x00")
                time.sleep(0.1)
            assert slow.last_words()["code"] == ErrorCode.TIMED_OUT
            assert idle.last_words()["code"] == ErrorCode.TIMED_OUT


def test_more_connections_than_allowed_are_told_so(tmp_path: Path) -> None:
    with node_thread(tmp_path / "data") as node:
        node.running.frames.context.connections_max = 2
        with Wire(node.port, node.token) as first, Wire(node.port, node.token), Wire(node.port) as third:
            assert third.last_words()["code"] == ErrorCode.TOO_MANY_REQUESTS
            assert "id" in first.call("node.describe")


def test_a_stopping_node_answers_what_is_under_way_and_says_goodbye(tmp_path: Path) -> None:
    with node_thread(tmp_path / "data") as node:
        wire, idle = Wire(node.port, node.token), Wire(node.port, node.token)
        wire.create("last")
        wire.socket.sendall(appends({**PLACE, "name": "last"}, 100, 5000))
        offsets(wire, 100, 5000)
        polled = wire.ask("stream.read", **PLACE, name="last", at="latest", wait_ms=60_000)
        subscribed = idle.ask("stream.subscribe", **PLACE, name="last", at="latest")
        assert idle.receive().correlation == subscribed
        idle.call("node.describe")
    answer = wire.receive()
    assert (answer.correlation, answer.kind) == (polled, FrameKind.REPLY)
    assert wire.last_words()["code"] == ErrorCode.UNAVAILABLE
    assert idle.last_words()["code"] == ErrorCode.UNAVAILABLE
    wire.socket.close()
    idle.socket.close()
