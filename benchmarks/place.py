"""Where the benchmarks write, and how much: one temporary directory on the real file system, gone at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flowmesh.assemble import open_local_log
from flowmesh.base.errors import FlowMeshError
from flowmesh.base.limits import GIB, KIB, MIB
from flowmesh.format import columns
from flowmesh.format.batch import Batch
from flowmesh.log.appender import Appender

BLOCK_BYTES = 100 * 1000
"""What a busy producer's block comes to: about a thousand records of a hundred bytes."""
SPARE_BYTES = 256 * MIB
"""Left free beside what a benchmark needs: the log keeps a reserve of its own and would refuse to append."""
_COMMIT_BYTES = MIB


@dataclass(frozen=True)
class Sizes:
    rounds: int
    log_bytes: int
    """The log that is recovered, verified and read."""
    memory_bytes: int
    blocks: int
    """Appends of 1 MiB in one round."""
    commits: int
    """Commits of 64 batches in one round."""
    appends: int
    """Appends one at a time in one round."""
    repeats: int
    """How often work of microseconds is done in one round."""
    node_appends: int
    """Appends of one record over frames in one round."""
    node_records: int
    """Records of a producer, or in bulk, in one round."""
    node_posts: int
    """Requests of one record over HTTP in one round."""
    node_seconds: float
    """How long a steady rate is kept up."""


FULL = Sizes(
    rounds=9,
    log_bytes=GIB,
    memory_bytes=5 * GIB,
    blocks=24,
    commits=32,
    appends=150,
    repeats=40,
    node_appends=200_000,
    node_records=500_000,
    node_posts=10_000,
    node_seconds=10,
)
QUICK = Sizes(
    rounds=3,
    log_bytes=64 * MIB,
    memory_bytes=256 * MIB,
    blocks=8,
    commits=8,
    appends=50,
    repeats=10,
    node_appends=50_000,
    node_records=200_000,
    node_posts=3_000,
    node_seconds=3,
)


class TooLittleSpace(Exception):
    """The file system has not enough room for what was asked for."""


@dataclass
class Place:
    """The directory of one run, and the log that several benchmarks read without changing it."""

    directory: Path
    sizes: Sizes
    _logs: dict[int, Path] = field(default_factory=dict)

    @contextmanager
    def folder(self, name: str) -> Iterator[Path]:
        """A new directory that is removed as soon as it is not needed."""
        path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.directory))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def sound_log(self, block_bytes: int) -> Path:
        """A log of `log_bytes` in blocks of one size, closed cleanly. Made once; whoever asks only reads it."""
        if block_bytes not in self._logs:
            path = self.directory / f"log-{block_bytes}"
            log = open_local_log(path, create="benchmark")
            fill(log, self.sizes.log_bytes, block_bytes)
            log.close()
            self._logs[block_bytes] = path
        return self._logs[block_bytes]

    def require(self, size_bytes: int) -> None:
        free = shutil.disk_usage(self.directory).free
        if free < size_bytes + SPARE_BYTES:
            raise TooLittleSpace(
                f"{self.directory.parent} has {free / GIB:.1f} GiB free; this run needs "
                f"{(size_bytes + SPARE_BYTES) / GIB:.1f} GiB. Free some, or use --dir, --quick or --only."
            )


@contextmanager
def temporary_place(parent: Path, sizes: Sizes) -> Iterator[Place]:
    """Removed however the run ends, Ctrl-C included."""
    directory = Path(tempfile.mkdtemp(prefix=".flowmesh-bench-", dir=parent))
    try:
        yield Place(directory, sizes)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def child(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of our own running `benchmarks.child`, which never outlives the block."""
    command = [sys.executable, "-m", "benchmarks.child", *arguments]
    root = Path(__file__).resolve().parents[1]
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    # In a session of its own a Ctrl-C reaches only us. Should we be killed, its next line finds no reader and ends it.
    with subprocess.Popen(command, stdin=none, stdout=pipe, text=True, cwd=root, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def random_batch(block_bytes: int, record_bytes: int = 100) -> Batch:
    """Records of random bytes, so that nothing below can compress or share them."""
    count = max(block_bytes // (record_bytes + 4), 1)
    data = os.urandom(count * record_bytes)
    return columns.encode([data[place : place + record_bytes] for place in range(0, len(data), record_bytes)])


def fill(log: Appender, size_bytes: int, block_bytes: int) -> None:
    batch = random_batch(block_bytes, min(block_bytes, KIB))
    group = [batch] * max(_COMMIT_BYTES // batch.size, 1)
    written = 0
    while written < size_bytes:
        append(log, group)
        written += sum(item.size for item in group)


def append(log: Appender, group: list[Batch]) -> None:
    """One durable commit; a benchmark of appends that were refused would look very good."""
    for result in log.write(group):
        if isinstance(result, FlowMeshError):
            raise result
    log.sync()


def segment_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("segment-*.log"))


def read_plainly(files: list[Path], chunk_bytes: int = MIB) -> None:
    """What reading costs without FlowMesh: `pread`, one chunk after the other."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            position = 0
            while data := os.pread(descriptor, chunk_bytes, position):
                position += len(data)
        finally:
            os.close(descriptor)
