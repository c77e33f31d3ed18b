"""Those who send a byte now and then: told so or cut off once their time is up, while all others are served."""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from flowmesh.base.limits import MIB
from flowmesh.format import frame
from flowmesh.format.frame import PREFIX, FrameKind
from flowmesh.testing import NodeProcess
from tests.withstand.impatient import impatient_node
from tests.withstand.memory import resident_bytes
from tests.withstand.talk import STREAM, STREAM_URL, Honest, Ports, dial

EACH = 20
DRIP_S = 0.1
LATE_S = 120.0
"""Far beyond every deadline of a node whose deadlines are the real ones."""


class Slow:
    """A connection that is some way into a message, and goes on with it byte by byte."""

    def __init__(self, kind: str, one: socket.socket, greeting: bytes, begun: bytes, drip: bytes) -> None:
        self.kind = kind
        self.socket = one
        self.drip = drip
        self.heard = b""
        self.closed = False
        if greeting:
            one.sendall(greeting)
            assert one.recv(65_536), "the welcome"
        one.sendall(begun)
        one.setblocking(False)

    def go_on(self) -> None:
        try:
            self.socket.send(self.drip)
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True

    def listen(self) -> None:
        try:
            data = self.socket.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.heard += data
        self.closed = self.closed or not data


def hello_of(token: str) -> bytes:
    return frame.encode(FrameKind.HELLO, 0, 1, msgspec.msgpack.encode({"token": token}))


def beginnings(token: str) -> dict[str, tuple[str, bytes, bytes]]:
    """By kind of slowness: where, what is sent at once, and what follows drop by drop."""
    bearer = f"authorization: Bearer {token}\r\n".encode()
    post = f"POST {STREAM_URL}/records HTTP/1.1\r\nhost: x\r\n".encode()
    raw = b"content-type: application/octet-stream\r\n"
    hello = hello_of(token)
    address = msgspec.msgpack.encode({"tenant": "default", "namespace": "default", "name": STREAM})
    return {
        "http, nothing": ("http", b"", b""),
        "http, request line": ("http", b"GET /hea", b"l"),
        "http, header": ("http", b"GET /healthz HTTP/1.1\r\nhost: x\r\nslow: ", b"x"),
        "http, many headers": ("http", b"GET /healthz HTTP/1.1\r\nhost: x\r\n", b"a:b\r\n"),
        "http, second request": ("http", b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /", b"x"),
        "http, body": ("http", post + bearer + raw + b"content-length: 1000000\r\n\r\n", b"x"),
        "http, chunks": ("http", post + bearer + raw + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        "http, body of a stranger": ("http", post + raw + b"content-length: 1000000\r\n\r\n", b"x"),
        "frames, nothing": ("frames", b"", b""),
        "frames, prefix": ("frames", hello[:5], b""),
        "frames, hello": ("frames", PREFIX.pack(4000, 1, 1, FrameKind.HELLO, 0, 0, 3000), b"x"),
        "frames, header": ("greeted", PREFIX.pack(900_000, 1, 1, FrameKind.REQUEST, 0, 21, 800_000), b"x"),
        "frames, body": (
            "greeted",
            PREFIX.pack(20 * MIB, 1, 1, FrameKind.REQUEST, 0, 21, len(address)) + address,
            b"x",
        ),
    }


@contextmanager
def slow_senders(ports: Ports, token: str) -> Iterator[list[Slow]]:
    found = [
        Slow(
            kind,
            dial(ports.http if where == "http" else ports.frames),
            hello_of(token) if where == "greeted" else b"",
            begun,
            drip,
        )
        for kind, (where, begun, drip) in beginnings(token).items()
        for _ in range(EACH)
    ]
    try:
        yield found
    finally:
        for each in found:
            each.socket.close()


def wait_until_all_are_gone(slow: list[Slow], honest: Honest) -> None:
    deadline = time.monotonic() + LATE_S
    while waiting := [each for each in slow if not each.closed]:
        assert time.monotonic() < deadline, f"still served: { {each.kind for each in waiting} }"
        for each in waiting:
            each.go_on()
        for one in select.select([each.socket for each in waiting], [], [], DRIP_S)[0]:
            next(each for each in waiting if each.socket is one).listen()
        time.sleep(DRIP_S)
        honest.require_served()


def require_all_are_sent_away(ports: Ports, token: str, pid: int) -> None:
    honest = Honest(ports, token)
    honest.require_served()
    before = resident_bytes(pid)
    with slow_senders(ports, token) as slow:
        wait_until_all_are_gone(slow, honest)
        assert resident_bytes(pid) - before < 32 * MIB
        for each in slow:
            words = each.heard.rpartition(b"HTTP/1.1 ")[2] if each.kind.startswith("http") else each.heard
            assert b"INTERNAL" not in words, each.kind
            if each.kind in ("http, header", "http, many headers", "http, body", "http, chunks"):
                assert words[:3] in (b"408", b""), (each.kind, each.heard)
    honest.require_served()
    honest.close()


def test_slow_senders_are_sent_away_and_nobody_else(tmp_path: Path) -> None:
    with impatient_node(tmp_path / "data") as node:
        ports = Ports.of(node.facts["http"], node.facts["frames"])
        require_all_are_sent_away(ports, node.token, node.process.pid)
        assert "Traceback" not in node.log.read_text()


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_slow_senders_are_sent_away_after_the_deadlines_that_hold_for_users(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with NodeProcess(tmp_path / "data") as node:
        began = time.monotonic()
        require_all_are_sent_away(Ports.of(node.http_url, node.url), node.token, node.pid)
        with capfd.disabled():
            sys.stderr.write(f"\nslow senders: the last one was gone after {time.monotonic() - began:.0f} s\n")
