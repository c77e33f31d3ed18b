"""Load over HTTP: whole requests made beforehand, many connections, one at a time on each. Runs in the load process."""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.harness import timed
from benchmarks.load_frames import quantiles

_READ_BYTES = 1 << 16
_VALUE = "v" * 100
_TICK_S = 0.001
_SETTLE_S = 30.0


class Caller:
    """One connection. A request goes out when it is told to, and an answer is whole when its length says so."""

    def __init__(self, port: int) -> None:
        self.link = socket.create_connection(("127.0.0.1", port))
        self.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._held = b""

    def answered(self) -> bool:
        """Takes what has come; whether that was the rest of an answer."""
        piece = self.link.recv(_READ_BYTES)
        if not piece:
            raise ConnectionError("the server closed the connection")
        self._held += piece
        head, blank, body = self._held.partition(b"\r\n\r\n")
        if not blank:
            return False
        length = head.lower().partition(b"content-length:")[2].partition(b"\r")[0]
        if len(body) < int(length):
            return False
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError(f"the server answered {self._held[:400]!r}")
        self._held = b""
        return True


@contextmanager
def callers(port: int, count: int) -> Iterator[tuple[dict[int, Caller], select.epoll]]:
    found = [Caller(port) for _ in range(count)]
    with select.epoll() as poll:
        for caller in found:
            poll.register(caller.link, select.EPOLLIN)
        try:
            yield {caller.link.fileno(): caller for caller in found}, poll
        finally:
            for caller in found:
                caller.link.close()


def request(token: str, stream: str, media: str, body: bytes) -> bytes:
    head = (
        f"POST /v1/default/default/streams/{stream}/records HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def single(token: str, stream: str) -> bytes:
    return request(token, stream, "application/json", f'{{"value": "{_VALUE}"}}'.encode())


def posts(port: int, token: str, stream: str, connections: int, count: int) -> float:
    """Seconds for `count` requests of one record each, one under way on each connection."""
    return _timed_posts(port, single(token, stream), connections, count)


def bulk(port: int, token: str, stream: str, connections: int, count: int, lines: int) -> float:
    """Seconds for `count` requests of `lines` records each, as NDJSON."""
    body = f'{{"value": "{_VALUE}"}}\n'.encode() * lines
    return _timed_posts(port, request(token, stream, "application/x-ndjson", body), connections, count)


def _timed_posts(port: int, data: bytes, connections: int, count: int) -> float:
    with callers(port, min(connections, count)) as (found, poll):
        return timed(lambda: _drive(found, poll, data, count))


def _drive(found: dict[int, Caller], poll: select.epoll, data: bytes, count: int) -> None:
    for caller in found.values():
        caller.link.sendall(data)
    sent, answered = len(found), 0
    while answered < count:
        for descriptor, _ in poll.poll():
            caller = found[descriptor]
            if caller.answered():
                answered += 1
                if sent < count:
                    sent += 1
                    caller.link.sendall(data)


def open_loop(port: int, token: str, stream: str, connections: int, rate: float, seconds: float) -> dict[str, float]:
    """Latencies when requests come at a steady rate: each from when it was due, also while no connection is free."""
    data, count = single(token, stream), max(int(rate * seconds), 1)
    found: list[float] = []
    under_way: dict[int, int] = {}
    with callers(port, connections) as (known, poll):
        idle = deque(known)  # in turn: one that is never used is closed by the node after a while
        start, sent = time.perf_counter(), 0
        while len(found) < count:
            now = time.perf_counter()
            if now - start > seconds + _SETTLE_S:
                raise TimeoutError("the node did not keep up with half of what it did before")
            due = min(int((now - start) * rate), count)
            while idle and sent < due:
                descriptor = idle.popleft()
                under_way[descriptor] = sent
                known[descriptor].link.sendall(data)
                sent += 1
            for descriptor, _ in poll.poll(_TICK_S):
                if known[descriptor].answered():
                    idle.append(descriptor)
                    found.append(time.perf_counter() - start - under_way[descriptor] / rate)
    return quantiles(found)
