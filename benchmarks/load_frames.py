"""Load over frames: encoded beforehand, written in bulk, replies counted by their lengths. Runs in the load process."""

from __future__ import annotations

import os
import select
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

import msgspec

from benchmarks.harness import timed
from flowmesh.format import columns, frame
from flowmesh.format.batch import HEADER_SIZE
from flowmesh.format.block import OVERHEAD
from flowmesh.format.frame import FrameFlag, FrameKind
from flowmesh.operations.frames import Hello
from flowmesh.operations.messages import AppendRecords
from flowmesh.operations.table import BY_NAME

VALUE_BYTES = 100
_READ_BYTES = 1 << 18
_TICK_S = 0.001
_SETTLE_S = 30.0


class Frames(NamedTuple):
    data: memoryview
    size: int
    """Of one."""

    def part(self, first: int, end: int) -> memoryview:
        return self.data[first * self.size : end * self.size]


class ReplyCounter:
    """Replies that are all of one length, counted by dividing: the first says the length, each read is checked.

    A merged reply stands for as many requests as its offsets say, so those are read.
    """

    def __init__(self, merged: bool) -> None:
        self._merged = merged
        self._rest = b""

    def feed(self, data: bytes) -> int:
        data = self._rest + data if self._rest else data
        if len(data) < frame.PREFIX_SIZE:
            self._rest = data
            return 0
        size = int.from_bytes(data[:4], "little") + 4
        if self._merged:
            return self._walk(data)
        count = len(data) // size
        last = (count - 1) * size
        if count and data[last : last + 4] != data[:4]:
            raise ValueError("not every reply was an acknowledgement")
        self._rest = data[count * size :]
        return count

    def _walk(self, data: bytes) -> int:
        found = position = 0
        while len(data) - position >= frame.PREFIX_SIZE:
            length, _, _, kind, flags, _, _ = frame.PREFIX.unpack_from(data, position)
            end = position + 4 + length
            if end > len(data):
                break
            if kind != FrameKind.REPLY:
                raise ValueError("not every reply was an acknowledgement")
            (appended,) = msgspec.msgpack.decode(data[position + frame.PREFIX_SIZE : end])["appends"]
            found += appended["end_offset"] - appended["base_offset"] if flags & FrameFlag.MERGE else 1
            position = end
        self._rest = data[position:]
        return found


@lru_cache(maxsize=4)
def alike(stream: str, count: int, merged: bool) -> Frames:
    """Appends of one record each, ready to be sent."""
    header = msgspec.msgpack.encode(AppendRecords("default", "default", stream))
    code, flags, value = BY_NAME["stream.append"].code, FrameFlag.MERGE if merged else 0, os.urandom(VALUE_BYTES)
    found = [frame.encode(FrameKind.REQUEST, code, number, header, value, flags=flags) for number in range(count)]
    return Frames(memoryview(b"".join(found)), len(found[0]))


@contextmanager
def connected(port: int, token: str | None) -> Iterator[socket.socket]:
    """A connection over which appends may go; without a token nobody is greeted."""
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if token is not None:
            link.sendall(frame.encode(FrameKind.HELLO, 0, 0, msgspec.msgpack.encode(Hello(token))))
            if link.recv(_READ_BYTES)[frame.CORRELATION.stop + 1] != FrameKind.REPLY:
                raise ConnectionError("the node did not welcome the load")
        yield link


def pipelined(
    port: int, token: str | None, stream: str, count: int, window: int, merged: bool = False, repeats: int = 1
) -> float:
    """Seconds for `count` appends with `window` in flight, of which as many are sent at once as were answered."""
    frames = alike(stream, count, merged)
    with connected(port, token) as link:
        seconds = timed(lambda: _drive_often(repeats, link, frames, count, window, merged))
    return seconds / repeats


def _drive_often(repeats: int, link: socket.socket, frames: Frames, count: int, window: int, merged: bool) -> None:
    for _ in range(repeats):
        _drive(link, frames, count, window, merged)


def _drive(link: socket.socket, frames: Frames, count: int, window: int, merged: bool) -> None:
    counter, sent, answered = ReplyCounter(merged), 0, 0
    while answered < count:
        upto = min(answered + window, count)
        if upto > sent:
            link.sendall(frames.part(sent, upto))
            sent = upto
        data = link.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        answered += counter.feed(data)


def alone(port: int, token: str, stream: str, count: int) -> float:
    """The median of `count` appends, each sent when the one before was answered."""
    frames = alike(stream, count, False)
    found = []
    with connected(port, token) as link:
        for number in range(count):
            began = time.perf_counter()
            link.sendall(frames.part(number, number + 1))
            link.recv(_READ_BYTES)
            found.append(time.perf_counter() - began)
    return statistics.median(found)


def plain_sync(directory: str, count: int) -> float:
    """The median of one `pwrite` and one `fdatasync` of as many bytes as such an append puts into the log."""
    batch = columns.encode([os.urandom(VALUE_BYTES)])
    data = os.urandom(HEADER_SIZE + len(batch.body) + OVERHEAD)
    descriptor = os.open(os.path.join(directory, "plain"), os.O_RDWR | os.O_CREAT, 0o600)
    position = os.fstat(descriptor).st_size
    found = []
    try:
        for _ in range(count):
            began = time.perf_counter()
            position += os.pwrite(descriptor, data, position)
            os.fdatasync(descriptor)
            found.append(time.perf_counter() - began)
    finally:
        os.close(descriptor)
    return statistics.median(found)


def open_loop(port: int, token: str, stream: str, rate: float, seconds: float) -> dict[str, float]:
    """Latencies when appends come at a steady rate, whether or not the node keeps up: each from when it was due."""
    count = max(int(rate * seconds), 1)
    frames = alike(stream, count, False)
    answers: list[tuple[int, float]] = []
    with connected(port, token) as link:
        link.setblocking(False)
        counter, sent_bytes, answered = ReplyCounter(False), 0, 0
        start = time.perf_counter()
        while answered < count:
            now = time.perf_counter()
            if now - start > seconds + _SETTLE_S:
                raise TimeoutError("the node did not keep up with half of what it did before")
            due_bytes = min(int((now - start) * rate), count) * frames.size
            if due_bytes > sent_bytes:
                sent_bytes += _send(link, frames.data[sent_bytes:due_bytes])
            if select.select([link], [], [], _TICK_S)[0]:
                answered += counter.feed(link.recv(_READ_BYTES))
                answers.append((answered, time.perf_counter()))
    return quantiles(latencies(answers, start, rate))


def _send(link: socket.socket, data: memoryview) -> int:
    try:
        return link.send(data)
    except BlockingIOError:
        return 0


def latencies(answers: list[tuple[int, float]], start: float, rate: float) -> list[float]:
    """From how many had been answered when, to how long each one took."""
    found: list[float] = []
    for upto, at in answers:
        found += [at - start - number / rate for number in range(len(found), upto)]
    return found


def quantiles(found: list[float]) -> dict[str, float]:
    found = sorted(found)
    return {name: found[int(len(found) * part)] for name, part in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))}
