"""How the tests run the command: as a real process, or inside this one where only words and codes are looked at."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from flowmesh.assemble import read_local_log
from flowmesh.base.errors import FlowMeshError
from flowmesh.cli.main import flowmesh

COMMAND = (sys.executable, "-m", "flowmesh")
TIMEOUT_S = 60


def run(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The executable, from outside."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT_S, check=False)


@contextmanager
def start(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """The executable, left running. It does not outlive the test, however that ends."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, *map(str, arguments)], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def call(*arguments: object, stdin: bytes | str = b"") -> Result:
    """The same commands without a new interpreter."""
    return CliRunner().invoke(flowmesh, list(map(str, arguments)), input=stdin, prog_name="flowmesh")


def append(directory: Path, *options: object, stdin: bytes | str) -> dict[str, Any]:
    result = call("log", "append", directory, "--json", *options, stdin=stdin)
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def numbers(start: int, end: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(start, end))


def records(directory: Path, *options: object) -> list[dict[str, Any]]:
    result = call("log", "read", directory, "--json", *options)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def flip(path: Path, place: float = 0.5) -> int:
    """One bit of a byte in the middle, or wherever `place` says; returns its position."""
    data = bytearray(path.read_bytes())
    position = int(len(data) * place)
    data[position] ^= 1
    path.write_bytes(data)
    return position


def wait_for_end(directory: Path, end_offset: int) -> None:
    """Until another process has made so much durable."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            if read_local_log(directory).end_offset >= end_offset:
                return
        except (FlowMeshError, FileNotFoundError):
            pass  # it is just being created
        time.sleep(0.02)
    raise AssertionError(f"the log in {directory} never reached offset {end_offset}")
