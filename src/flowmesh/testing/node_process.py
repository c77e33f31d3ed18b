"""A node as a process: started on free ports, stopped, killed and started again, with its data kept in between."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

PATIENCE_S = 60.0
"""How long a node may take to start or to stop."""
_LOG_TAIL_BYTES = 4000


class NodeFailed(Exception):
    """The node did not start, or did not end as it should; the message ends with what it logged last."""


class NodeProcess:
    """`flowmesh serve` in a directory. `url` is for the SDK, `http_url` for HTTP, `token` is the administrator's.

    Settings are those of `flowmesh serve`, spelled as in its configuration: `drain_timeout_s=1`. Free ports are taken
    once and kept over restarts, so that clients find the node again.
    """

    def __init__(self, data_dir: str | Path, **settings: object) -> None:
        self.data_dir = Path(data_dir)
        self.url = ""
        self.http_url = ""
        self.token = ""
        self.program: tuple[str, ...] = _COMMAND
        """What is started, before the options of `flowmesh serve`."""
        self._settings: dict[str, object] = {"http_port": 0, "frames_port": 0, **settings}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        if error is not None:
            self.kill()
        else:
            self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node does not run"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log_file(self) -> Path:
        """What the node writes to its standard error, over all its starts."""
        return self.data_dir.with_name(self.data_dir.name + ".log")

    def start(self) -> None:
        """Returns once the node serves."""
        assert self._process is None, "the node runs already"
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        options = [text for name, value in self._settings.items() for text in (_flag(name), str(value))]
        command = [*self.program, "--json", "--data-dir", str(self.data_dir), *options]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        try:
            facts = self._wait_until_ready()
        except BaseException:
            self.kill()
            raise
        self.url, self.http_url = facts["frames"], facts["http"]
        self._settings["frames_port"] = self.url.rpartition(":")[2]
        self._settings["http_port"] = self.http_url.rpartition(":")[2]
        self.token = Path(facts["token_file"]).read_text().strip()

    def stop(self) -> None:
        """SIGTERM: the node drains and ends in order."""
        status = self._end(signal.SIGTERM)
        if status != 0:
            raise NodeFailed(f"the node ended with status {status}. {self._last_words()}")

    def kill(self) -> None:
        """SIGKILL: the node has no time for anything."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """`stop` if it runs, and `start`."""
        if self._process is not None:
            self.stop()
        self.start()

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None, "the node does not run"
        assert process.stdout is not None
        try:
            if process.poll() is None:
                process.send_signal(number)
            return process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise NodeFailed(f"the node did not end within {PATIENCE_S:g} s. {self._last_words()}") from None
        finally:
            process.stdout.close()

    def _wait_until_ready(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        said, deadline = b"", time.monotonic() + PATIENCE_S
        while b"\n" not in said:
            ready, _, _ = select.select([self._process.stdout], [], [], max(deadline - time.monotonic(), 0))
            piece = os.read(self._process.stdout.fileno(), 65_536) if ready else b""
            if not piece:
                raise NodeFailed(f"the node did not start. {self._last_words()}")
            said += piece
        facts: dict[str, Any] = msgspec.json.decode(said.partition(b"\n")[0])
        return facts

    def _last_words(self) -> str:
        logged = self.log_file.read_bytes()[-_LOG_TAIL_BYTES:] if self.log_file.exists() else b""
        return f"It logged:\n{logged.decode(errors='replace')}"


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


_COMMAND = (sys.executable, "-c", "from flowmesh.cli.serve import serve; serve(prog_name='flowmesh serve')")
