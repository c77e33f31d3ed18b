"""Processes that Spark tests start beside their own: drivers to be killed, daemons of clusters. None is left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_FAST_START = "-XX:TieredStopAtLevel=1"


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """That of the test, in which modules of the tests are found, and a JVM is up soon."""
    return {
        **{name: text for name, text in os.environ.items() if not name.startswith(("FLOWMESH_", "PYSPARK_"))},
        "SPARK_SUBMIT_OPTS": _FAST_START,
        "SPARK_DAEMON_JAVA_OPTS": f"{_FAST_START} -Dspark.master.rest.enabled=false",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        **(extra or {}),
    }


@contextmanager
def process_group(
    command: Sequence[str], log: Path, extra: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process with all that it starts: killed together at the end, whatever happened. What it says goes to `log`."""
    with log.open("ab") as told:
        process = subprocess.Popen(
            command,
            env=environment(extra),
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Also what the process left behind when it ended by itself."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_words(log: Path) -> str:
    return log.read_text(errors="replace")[-4000:]
