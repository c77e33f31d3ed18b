"""A streaming query whose driver and whose node are killed again and again: each row is stored once, all the same."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowmesh.client import connect_blocking
from flowmesh.testing import NodeProcess
from tests.spark.processes import last_words
from tests.spark.query_kills import PATIENCE_S, running, stored_count, stored_numbers, wait_for_more
from tests.spark.sink_query import Query

FILE_ROWS = 40_000
TARGET = "killed"


def write_files(folder: Path, count: int) -> int:
    folder.mkdir()
    for number in range(count):
        rows = pa.table({"n": pa.array(range(number * FILE_ROWS, (number + 1) * FILE_ROWS), pa.int64())})
        pq.write_table(rows, folder / f"{number:03}.parquet")
    return count * FILE_ROWS


def storm(folder: Path, prepared: str, driver_kills: int, node_kills: int, seed: int) -> None:
    """Each kill comes once more rows are stored than at the one before: in the middle of a micro-batch, mostly."""
    chance = random.Random(seed)
    total = write_files(folder / "files", 2 * (driver_kills + 1))
    with NodeProcess(folder / "data") as node:
        with connect_blocking(node.url, token=node.token) as client:
            client.create_stream(TARGET, partitions=3)
        query = Query(
            node.url, node.token, str(folder / "checkpoint"), TARGET, files=str(folder / "files"), prepared=prepared
        )
        for round_number in range(driver_kills + 1):
            with running(query, folder / "query.log") as driver:
                if round_number < node_kills:
                    wait_for_more(node, TARGET, driver, stored_count(node, TARGET))
                    node.kill()
                    node.start()
                if round_number < driver_kills:
                    wait_for_more(node, TARGET, driver, stored_count(node, TARGET))
                    time.sleep(chance.uniform(0, 0.4))
                    continue
                assert driver.wait(PATIENCE_S) == 0, last_words(folder / "query.log")
        assert stored_numbers(node, TARGET) == list(range(total))


@pytest.mark.timeout(400)
def test_two_killed_drivers_and_a_killed_node_leave_each_row_once(tmp_path: Path) -> None:
    storm(tmp_path, "shuffled", driver_kills=2, node_kills=1, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("prepared", ["plain", "shuffled"])
def test_ten_killed_drivers_and_nodes_leave_each_row_once(tmp_path: Path, prepared: str) -> None:
    storm(tmp_path, prepared, driver_kills=10, node_kills=10, seed=time.time_ns())
