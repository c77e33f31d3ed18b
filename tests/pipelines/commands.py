"""`flowmesh` as a process of its own that starts a Spark of its own, for what only such a process can show."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flowmesh.testing import NodeProcess

PATIENCE_S = 150.0
"""For a whole run. A Spark that starts on a busy machine needs a lot of it."""
Event = dict[str, Any]


def environment(node: NodeProcess, state: Path, **more: str) -> dict[str, str]:
    """As a shell has it after a login: nothing of this machine's user is seen."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("FLOWMESH_")}
    return {
        **plain,
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",
        "FLOWMESH_URL": node.url,
        "FLOWMESH_TOKEN": node.token,
        "FLOWMESH_STATE": str(state),
        "FLOWMESH_CONTEXTS": str(state / "contexts.yaml"),
        **more,
    }


def flowmesh(
    *arguments: object, variables: Mapping[str, str], directory: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flowmesh", *map(str, arguments)]
    return subprocess.run(
        command,
        env=dict(variables),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def events_of(text: str) -> list[Event]:
    return [json.loads(line) for line in text.splitlines()]


class Command:
    """One that goes on, and says with `--json` what happens."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.events: list[Event] = []

    def until(self, enough: Callable[[Event], object]) -> Event:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))
            if enough(self.events[-1]):
                return self.events[-1]
        raise AssertionError(f"it ended before: {self.events[-3:]}")

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        assert self.process.stdout is not None
        self.events += events_of(self.process.stdout.read())
        return self.process.wait(PATIENCE_S)


@contextmanager
def going(*arguments: object, variables: Mapping[str, str], log: Path) -> Iterator[Command]:
    """Is gone, with all that it started, when the block is left; `log` has what it complained of."""
    command = [sys.executable, "-m", "flowmesh", *map(str, arguments), "--json"]
    with (
        log.open("a") as errors,
        subprocess.Popen(
            command,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield Command(process)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
