"""What the benchmarks of the node run beside each other: the node, the load and the bare servers, each a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.place import Place
from flowmesh.client import connect_blocking
from flowmesh.node import paths
from flowmesh.testing.node_process import NodeProcess

_ROOT = Path(__file__).resolve().parents[1]
_PLACE = ("default", "default")


class Loader:
    """A process that makes load: it is told a task, runs it, and tells what it measured."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def seconds(self, task: str, **arguments: object) -> float:
        return float(self.ask(task, **arguments))

    def ask(self, task: str, **arguments: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode([task, arguments]) + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ChildProcessError(f"the load process ended in {task}.")
        return msgspec.json.decode(line)


class Ground(NamedTuple):
    """A node with nothing in it, and a process that will use it."""

    node: NodeProcess
    loader: Loader

    @property
    def frames_port(self) -> int:
        return int(self.node.url.rpartition(":")[2])

    @property
    def http_port(self) -> int:
        return int(self.node.http_url.rpartition(":")[2])

    def stream(self, name: str) -> None:
        with connect_blocking(self.node.url, token=self.node.token) as client:
            client.create_stream(name)

    def end_offset(self, name: str) -> int:
        with connect_blocking(self.node.url, token=self.node.token) as client:
            return sum(partition.end_offset for partition in client.stream(name).describe().partitions)

    def log_directory(self, name: str) -> Path:
        return self.node.data_dir / paths.resource_directory(paths.STREAMS, "/".join((*_PLACE, name))) / "0"


@contextmanager
def ground(place: Place) -> Iterator[Ground]:
    with place.folder("node") as folder, NodeProcess(folder / "data") as node, loader() as load:
        yield Ground(node, load)


@contextmanager
def loader() -> Iterator[Loader]:
    with _process("node_load") as process:
        yield Loader(process)


@contextmanager
def bare_server(kind: str) -> Iterator[int]:
    """The port of a server that does the least that one can do."""
    with _process("bare_servers", kind) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


@contextmanager
def _process(module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=_ROOT, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()
