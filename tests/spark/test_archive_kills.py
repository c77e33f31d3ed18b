"""kill -9 of the archive's driver, of the node, and of both: whoever counts afterwards counts every record once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import flowmesh.spark
from flowmesh.archive.manifest import Manifest
from flowmesh.archive.store import LocalStore, latest
from flowmesh.client import connect_blocking
from flowmesh.spark.archive.origin import stream_origin
from flowmesh.spark.archive.verify import verify_history
from flowmesh.spark.archive_group import GroupHolder
from flowmesh.spark.options import NodeAccess, Secret, StreamName
from flowmesh.testing import NodeProcess
from tests.spark.archives import archive_stream, by_directory, by_manifest, manifest_of, session
from tests.spark.processes import kill_group, last_words, process_group

pytestmark = pytest.mark.usefixtures("spark")
PATIENCE_S = 120
STREAM = StreamName("default", "default", "killed")
ROWS = 200
_DRIVER = """
import sys, time
import flowmesh.spark
from flowmesh.base.errors import FlowMeshError
from flowmesh.spark.archive import job
from flowmesh.spark.archive.origin import stream_origin
from flowmesh.spark.archive_group import GroupHolder
from flowmesh.spark.options import NodeAccess, Secret, StreamName
job.ROUND_PIECES = 1
data, cold, url, token, name = sys.argv[1:]
stream = StreamName(*name.split("/"))
spark = flowmesh.spark.session("local[1]")
spark.range(1).rdd.count()
holder = GroupHolder(NodeAccess(url, Secret(token), None, None, 200_000_000), stream, cold, hold_s=3600)
print("ready", flush=True)
while True:
    try:
        job.run_archive(spark, stream_origin(data, name), cold, job.ArchiveOptions(1 << 20), holder=holder)
    except FlowMeshError as error:
        print("failed", str(error).replace("\\n", " "), flush=True)
        time.sleep(0.05)
"""


@contextmanager
def driver(node: NodeProcess, cold: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that archives over and over, killed with everything that it started."""
    command = [sys.executable, "-c", _DRIVER, str(node.data_dir), str(cold), node.url, node.token, str(STREAM)]
    log = cold.with_name("driver.log")
    log.write_bytes(b"")
    with process_group(command, log) as process:
        deadline = time.monotonic() + PATIENCE_S
        while b"ready\n" not in log.read_bytes():
            assert time.monotonic() < deadline, last_words(log)
            assert process.poll() is None, last_words(log)
            time.sleep(0.05)
        yield process


class Killed:
    """A stream that drops what it may at once, appended to while an archive is written and everybody is killed."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.cold = root / "cold"
        self.node = NodeProcess(root / "node", drain_timeout_s=1, retention_interval_s=0.1)
        self.appended = 0
        self._driver: AbstractContextManager[subprocess.Popen[bytes]] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def append(self, blocks: int) -> None:
        with connect_blocking(self.node.url, token=self.node.token) as client:
            handle = client.stream(STREAM.name)
            for _ in range(blocks):
                values = [b"%012d" % (self.appended + row) + b"-" * 40 for row in range(ROWS)]
                handle.append_many(values, partition=0)
                self.appended += ROWS

    def round(self, who: str) -> None:
        """A driver that lives through it goes on in the next one."""
        before = self._published()
        self.append(12)
        process = self._running()
        until = time.monotonic() + PATIENCE_S
        while self._published() == before and time.monotonic() < until:
            time.sleep(0.01)  # it is at work from here on
        assert self._published() > before
        self.append(self.random.randrange(1, 12))
        time.sleep(self.random.uniform(0, 0.6))
        if who in ("driver", "both"):
            kill_group(process)
            self.end_driver()
        if who in ("node", "both"):
            self.node.kill()
            time.sleep(self.random.uniform(0, 0.6))
            self.node.start()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._driver = driver(self.node, self.cold)
            self._process = self._driver.__enter__()
        assert self._process.poll() is None
        return self._process

    def end_driver(self) -> None:
        if self._driver is not None:
            self._driver.__exit__(None, None, None)
            self._driver = self._process = None

    def _published(self) -> int:
        found: Manifest | None = latest(LocalStore(str(self.cold)))
        return found.number if found is not None else 0

    def archive_rest(self) -> None:
        node = self.node
        archive_stream(session(), node.url, node.token, node.data_dir, STREAM.name, self.cold)


def offsets(table: Any) -> list[int]:
    found: list[int] = sorted(table.column("offset").to_pylist())
    return found


def kill_and_count(root: Path, rounds: list[str], seed: int) -> None:
    killed = Killed(root, seed)
    with killed.node as node:
        with connect_blocking(node.url, token=node.token) as client:
            client.create_stream(STREAM.name, retention_bytes=100_000, segment_bytes=65_536)
            killed.append(4)
            # The group is there before the first driver: nothing may go that it has not archived.
            access = NodeAccess(node.url, Secret(node.token), None, None, 10**10)
            GroupHolder(access, STREAM, str(killed.cold), hold_s=3600).hold({0: 0})
        try:
            for who in rounds:
                killed.round(who)
        finally:
            killed.end_driver()
        killed.archive_rest()
        count_everywhere(killed)


def count_everywhere(killed: Killed) -> None:
    """Every reader that there is: of the directory, of the manifest, of both tiers, of the log alone."""
    node, expected = killed.node, list(range(killed.appended))
    assert offsets(by_directory(killed.cold)) == expected
    assert offsets(by_manifest(killed.cold)) == expected
    assert session().read.parquet(str(killed.cold)).count() == killed.appended
    joined = session().read.format("flowmesh").options(url=node.url, token=node.token, columns="offset,value")
    rows = joined.load(STREAM.name).orderBy("offset").collect()  # the node says where the archive is
    assert [row["offset"] for row in rows] == expected
    assert [int(row["value"][:12]) for row in rows] == expected
    native = flowmesh.spark.read(session(), STREAM.name, url=node.url, token=node.token, columns="offset")
    assert sorted(row["offset"] for row in native.collect()) == expected
    with connect_blocking(node.url, token=node.token) as client:
        handle = client.stream(STREAM.name)
        start = handle.describe().partitions[0].start_offset
        held = [record.offset for batch in read_all(handle, start, killed.appended) for record in batch.records()]
        assert held == expected[start:]
    assert 0 < start <= manifest_of(killed.cold).partitions[0].end_offset
    report = verify_history(session(), stream_origin(node.data_dir, str(STREAM)), str(killed.cold))
    assert report.sound
    assert report.records == killed.appended


def read_all(handle: Any, start: int, end: int) -> Iterator[Any]:
    while start < end:
        for batch in handle.read(start, partition=0):
            yield batch
            start = batch.end_offset


@pytest.mark.timeout(400)
def test_every_record_is_counted_once_whoever_is_killed(tmp_path: Path) -> None:
    kill_and_count(tmp_path, ["node", "driver", "both"], seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("who", ["driver", "node", "both"])
def test_ten_times_each(tmp_path: Path, who: str) -> None:
    kill_and_count(tmp_path, [who] * 10, seed=10)
