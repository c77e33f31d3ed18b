"""Lines from a pipe, a file or a terminal, as many at a time as are there. What a line means is not known here."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import BinaryIO

from flowmesh.base.errors import TooLarge
from flowmesh.base.limits import BATCH_BYTES_MAX, MIB

CHUNK_BYTES = MIB
LINE_BYTES_MAX = BATCH_BYTES_MAX // 2
"""Half of what a block may hold, so that a block can always take a line and what was gathered before it."""

SAME_WISH_S = 0.5
"""A wrapper that forwards a signal to a group sends it twice; what comes so soon is the same wish."""


class Stop:
    """Ctrl-C, once, as a wish to end: it breaks off waiting for input, and nothing else. Later again, it breaks off."""

    def __init__(self) -> None:
        self.waiting = False
        self._since: float | None = None

    @property
    def wanted(self) -> bool:
        return self._since is not None

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        since = self._since = now if self._since is None else self._since
        if self.waiting or now - since > SAME_WISH_S:
            self.waiting = False  # so that the same wish, come again, does not break off the way out
            raise KeyboardInterrupt

    @contextmanager
    def listening(self) -> Iterator[None]:
        before = signal.signal(signal.SIGINT, self.on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


class LineReader:
    """`read` gives whole lines without their newline. The last line of a stream may lack one."""

    def __init__(self, stream: BinaryIO, stop: Stop) -> None:
        self.lines_read = 0
        self._stream = stream
        self._stop = stop
        self._descriptor = _descriptor(stream)
        self._unfinished: list[bytes] = []
        self._unfinished_bytes = 0

    def read(self, patience: float | None) -> list[bytes] | None:
        """The next lines; none when `patience` seconds bring no whole line; None at the end of the stream."""
        if not self._await_input(patience):
            return None if self._stop.wanted else []
        chunk = self._read_chunk()
        if not chunk:
            return self._last_line()
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._keep(rest)
            return []
        lines = b"".join((*self._unfinished, head)).split(b"\n")
        self._unfinished, self._unfinished_bytes = [], 0
        self.lines_read += len(lines)
        self._keep(rest)
        return lines

    def _last_line(self) -> list[bytes] | None:
        if not self._unfinished_bytes:
            return None
        line, self._unfinished, self._unfinished_bytes = b"".join(self._unfinished), [], 0
        self.lines_read += 1
        return [line]

    def _keep(self, part: bytes) -> None:
        if part:
            self._unfinished.append(part)
            self._unfinished_bytes += len(part)
        if self._unfinished_bytes > LINE_BYTES_MAX:
            raise TooLarge(f"line {self.lines_read + 1} is over the limit of {LINE_BYTES_MAX} bytes.", field="value")

    def _await_input(self, patience: float | None) -> bool:
        if self._descriptor is None:
            return not self._stop.wanted
        try:
            self._stop.waiting = True
            if self._stop.wanted:
                return False
            return bool(select.select([self._descriptor], [], [], patience)[0])
        except KeyboardInterrupt:
            return False
        finally:
            self._stop.waiting = False

    def _read_chunk(self) -> bytes:
        if self._descriptor is None:
            return self._stream.read(CHUNK_BYTES)
        return os.read(self._descriptor, CHUNK_BYTES)


def _descriptor(stream: BinaryIO) -> int | None:
    """None for a stream that is no file of the system, which cannot be waited for."""
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None
