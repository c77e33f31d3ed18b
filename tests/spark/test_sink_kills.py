"""A streaming query whose driver and whose node are killed again and again: each row is stored once, all the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowmesh.client import connect_blocking
from flowmesh.testing import NodeProcess
from tests.spark import sink_query

FILE_ROWS = 40_000
PATIENCE_S = 200.0


def write_files(folder: Path, count: int) -> int:
    folder.mkdir()
    for number in range(count):
        rows = pa.table({"n": pa.array(range(number * FILE_ROWS, (number + 1) * FILE_ROWS), pa.int64())})
        pq.write_table(rows, folder / f"{number:03}.parquet")
    return count * FILE_ROWS


@contextmanager
def running(folder: Path, node: NodeProcess, prepared: str) -> Iterator[subprocess.Popen[bytes]]:
    """The query as a group of processes, all of which end with this."""
    arguments = [str(folder / "files"), str(folder / "checkpoint"), node.url, node.token, "killed", "90s", prepared]
    environment = {
        **os.environ,
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, sink_query.__file__, *arguments]
    with (folder / "query.log").open("ab") as log:
        driver = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield driver
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()


def stored_count(node: NodeProcess) -> int:
    with connect_blocking(node.url, token=node.token) as client:
        return sum(facts.end_offset for facts in client.stream("killed").describe().partitions)


def wait_for_more(node: NodeProcess, driver: subprocess.Popen[bytes], than: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while driver.poll() is None and stored_count(node) <= than and time.monotonic() < deadline:
        time.sleep(0.02)


def stored_numbers(node: NodeProcess) -> list[int]:
    found: list[int] = []
    with connect_blocking(node.url, token=node.token) as client:
        stream = client.stream("killed")
        for facts in stream.describe().partitions:
            offset = 0
            while offset < facts.end_offset:
                for batch in stream.read(offset, partition=facts.partition):
                    found += [int(value or b"-1") for value in batch.values()]
                    offset = batch.end_offset
    return sorted(found)


def storm(folder: Path, prepared: str, driver_kills: int, node_kills: int, seed: int) -> None:
    """Each kill comes once more rows are stored than at the one before: in the middle of a micro-batch, mostly."""
    chance = random.Random(seed)
    total = write_files(folder / "files", 2 * (driver_kills + 1))
    with NodeProcess(folder / "data") as node:
        with connect_blocking(node.url, token=node.token) as client:
            client.create_stream("killed", partitions=3)
        for round_number in range(driver_kills + 1):
            with running(folder, node, prepared) as driver:
                if round_number < node_kills:
                    wait_for_more(node, driver, stored_count(node))
                    node.kill()
                    node.start()
                if round_number < driver_kills:
                    wait_for_more(node, driver, stored_count(node))
                    time.sleep(chance.uniform(0, 0.4))
                    continue
                assert driver.wait(PATIENCE_S) == 0, (folder / "query.log").read_text()[-4000:]
        assert stored_numbers(node) == list(range(total))


@pytest.mark.timeout(400)
def test_two_killed_drivers_and_a_killed_node_leave_each_row_once(tmp_path: Path) -> None:
    storm(tmp_path, "shuffled", driver_kills=2, node_kills=1, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("prepared", ["plain", "shuffled"])
def test_ten_killed_drivers_and_nodes_leave_each_row_once(tmp_path: Path, prepared: str) -> None:
    storm(tmp_path, prepared, driver_kills=10, node_kills=10, seed=time.time_ns())
