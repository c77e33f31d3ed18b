"""Readers that stop to read or to acknowledge: what a node holds for them is bounded, and everybody else is served."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowmesh.base.limits import KIB, MIB
from flowmesh.client import connect_blocking
from flowmesh.format.frame import FrameKind
from flowmesh.testing import NodeProcess
from tests.api.frames.wire import PLACE, Wire, content
from tests.withstand.impatient import impatient_node
from tests.withstand.memory import resident_bytes
from tests.withstand.talk import Honest, Ports, dial

RECORD = bytes(10 * KIB)
RECORDS_EACH = 100
BATCHES = 60
EACH = 30
HELD_EACH_MAX = 6 * MIB
"""A write buffer, the piece behind it and the piece that waits; the stream itself is ten times as large."""
RECEIVE_BYTES = 64 * KIB
STALLED_URL = "/v1/default/default/streams/heavy"


def fill(url: str, token: str) -> None:
    with connect_blocking(url, token=token) as client:
        stream = client.create_stream("heavy")
        for _ in range(BATCHES):
            stream.append_many([RECORD] * RECORDS_EACH)


class Stalled:
    """Readers of every kind that ask for all there is, and take nothing of it."""

    def __init__(self, ports: Ports, token: str, each: int) -> None:
        bearer = f"host: x\r\nauthorization: Bearer {token}\r\n"
        events = f"GET {STALLED_URL}/events?at=earliest HTTP/1.1\r\n{bearer}\r\n"
        lines = f"GET {STALLED_URL}/records?at=earliest HTTP/1.1\r\n{bearer}accept: application/x-ndjson\r\n\r\n"
        self.events = [self._asked(ports.http, events) for _ in range(each)]
        self.lines = [self._asked(ports.http, lines) for _ in range(each)]
        self.deaf = [self._subscribed(ports.frames, token, 1_000_000) for _ in range(each)]
        self.silent = [self._subscribed(ports.frames, token, RECORDS_EACH) for _ in range(each)]
        """These read what comes, and acknowledge none of it."""

    def close(self) -> None:
        for one in [*self.events, *self.lines]:
            one.close()
        for wire in [*self.deaf, *self.silent]:
            wire.socket.close()

    def _asked(self, port: int, request: str) -> socket.socket:
        one = dial(port, receive_bytes=RECEIVE_BYTES)
        one.sendall(request.encode())
        return one

    def _subscribed(self, port: int, token: str, window: int) -> Wire:
        wire = Wire(port, token)
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        wire.ask("stream.subscribe", **PLACE, name="heavy", at="earliest", window=window)
        return wire


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "data") as running:
        fill(running.url, running.token)
        yield running


def test_what_is_held_for_stalled_readers_is_bounded(node: NodeProcess, capfd: pytest.CaptureFixture[str]) -> None:
    ports = Ports.of(node.http_url, node.url)
    honest = Honest(ports, node.token)
    honest.require_served()
    before = resident_bytes(node.pid)
    stalled, most = Stalled(ports, node.token, EACH), 0
    try:
        for _ in range(20):
            honest.require_served()
            most = max(most, resident_bytes(node.pid) - before)
            time.sleep(0.2)
        pushed = 0
        for wire in stalled.silent:
            assert wire.receive().kind == FrameKind.REPLY
            pushed += content(wire.receive())["next_offset"]
        assert pushed <= EACH * RECORDS_EACH, "no more is pushed than the window has room for"
        with capfd.disabled():
            sys.stderr.write(f"\n{4 * EACH} stalled readers: {most / (4 * EACH) / KIB:.0f} KiB of the node each\n")
        assert most < 4 * EACH * HELD_EACH_MAX
        with connect_blocking(node.url, token=node.token) as client:
            assert client.stream("heavy").read(0)
    finally:
        stalled.close()
    honest.require_served()
    honest.close()


def test_a_stalled_reader_is_told_or_cut_off_and_may_come_back(tmp_path: Path) -> None:
    with impatient_node(tmp_path / "data") as node:
        ports = Ports.of(node.facts["http"], node.facts["frames"])
        fill(node.facts["frames"], node.token)
        honest = Honest(ports, node.token)
        stalled = Stalled(ports, node.token, 3)
        for _ in range(20):
            honest.require_served()
            time.sleep(0.2)
        for wire in [*stalled.deaf, *stalled.silent]:
            while (answer := wire.receive()).kind != FrameKind.END:
                assert answer.kind in (FrameKind.REPLY, FrameKind.PUSH)
            told = content(answer)
            assert told["code"] == "SUBSCRIPTION_STALLED"
            wire.ask("stream.read", **PLACE, name="heavy", offset=told["offset"])
            assert wire.receive().kind == FrameKind.REPLY, "the connection is as good as before"
        for one in [*stalled.events, *stalled.lines]:
            assert heard(one) < BATCHES * RECORDS_EACH * len(RECORD)
        stalled.close()
        honest.require_served()
        honest.close()
        assert "Traceback" not in node.log.read_text()


def heard(one: socket.socket) -> int:
    """Bytes that come before the connection ends, in whatever way."""
    size = 0
    try:
        while data := one.recv(1 << 20):
            size += len(data)
    except ConnectionError:
        pass
    return size
