"""Child processes of the tests: started, listened to, stopped and always reaped, whatever happens to the test."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.process.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0
"""How long a child may be silent before the test gives up. Nothing is measured with it."""
_READ_BYTES = 65_536


class Child:
    """A running program and the lines that it has reported so far; a line that a kill cut in two is not one."""

    def __init__(self, process: subprocess.Popen[bytes], report: int) -> None:
        self.process = process
        self.lines: list[str] = []
        self._report = report
        self._rest = b""
        self._ended = False

    def listen(self, seconds: float) -> bool:
        """Takes what is reported until `seconds` have passed; False once nothing more can come."""
        deadline = time.monotonic() + seconds
        while not self._ended:
            ready, _, _ = select.select([self._report], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                return True
            self._take()
        return False

    def wait_for(self, word: str, times: int = 1) -> bool:
        """Listens until the child has reported `word` so often; False when it ended before."""
        seen = 0
        wanted = 0
        deadline = time.monotonic() + PATIENCE_S
        while True:
            while seen < len(self.lines):
                wanted += self.lines[seen].partition(" ")[0] == word
                seen += 1
                if wanted == times:
                    return True
            if self._ended:
                return False
            assert time.monotonic() < deadline, f"the child never reported {word!r}: {self.lines[-5:]}"
            if select.select([self._report], [], [], 1.0)[0]:
                self._take()

    def finish(self) -> int:
        """Listens to the end of the child and returns its exit status."""
        assert not self.listen(PATIENCE_S), f"the child does not end: {self.lines[-5:]}"
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        """SIGKILL, and every line that had left the child by then."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self.listen(PATIENCE_S)

    def said(self, word: str) -> list[list[str]]:
        """The arguments of every line that begins with `word`."""
        split = [line.split(" ") for line in self.lines]
        return [parts[1:] for parts in split if parts[0] == word]

    def acknowledged(self) -> list[tuple[int, int]]:
        return [(int(base), int(end)) for base, end in self.said("ack")]

    def _take(self) -> None:
        data = os.read(self._report, _READ_BYTES)
        self._ended = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.lines += [line.decode() for line in lines]


@contextmanager
def running(program: str, settings: Settings, environment: Mapping[str, str] | None = None) -> Iterator[Child]:
    """`tests.process.<program>` as a process of its own, dead and reaped when the block is left."""
    report, write_end = os.pipe()
    try:
        told = msgspec.structs.replace(settings, report=write_end)
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", f"tests.process.{program}", told.encoded()],
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                pass_fds=[write_end],
                stdin=subprocess.DEVNULL,
            )
        finally:
            os.close(write_end)
        try:
            yield Child(process, report)
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(report)
