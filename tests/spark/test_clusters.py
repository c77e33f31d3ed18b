"""Executors in processes of their own, with nothing but the node's address: read, query, sink and archive."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from flowmesh.client import connect_blocking
from flowmesh.spark.java import java_home
from flowmesh.testing import NodeProcess
from tests.spark import cluster_driver
from tests.spark.cluster_driver import SOURCE, TARGET, Job
from tests.spark.processes import environment, last_words, process_group

PATIENCE_S = 240.0
BLOCKS, ROWS, WIDTH = 10, 2_500, 400
"""Of each of the two partitions: 10 MB, and several tasks each."""
TOTAL = 2 * BLOCKS * ROWS
WHOLE_SUM = TOTAL * (TOTAL - 1) // 2


def fill(node: NodeProcess) -> None:
    with connect_blocking(node.url, token=node.token) as client:
        client.create_stream(SOURCE, partitions=2)
        client.create_stream(TARGET, partitions=3, segment_bytes=1 << 20)
        handle = client.stream(SOURCE)
        for block in range(2 * BLOCKS):
            values = [b"%012d" % (block * ROWS + row) + b"." * (WIDTH - 12) for row in range(ROWS)]
            handle.append_many(values, partition=block % 2)


def spark_home(root: Path) -> Path:
    """Like the one of the package, but it may be written to: `local-cluster` puts the executors' directories there."""
    home = root / "spark-home"
    home.mkdir()
    for inside in Path(pyspark.__file__).parent.iterdir():
        if inside.name != "work":
            (home / inside.name).symlink_to(inside)
    return home


def until_said(log: Path, pattern: str, times: int = 1) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = re.findall(pattern, log.read_text(errors="replace")) if log.exists() else []
        if len(found) >= times:
            return str(found[0])
        time.sleep(0.05)
    raise AssertionError(f"{pattern} was not said. {last_words(log)}")


@contextmanager
def standalone(root: Path) -> Iterator[str]:
    """A master and two workers with a core each, on ports that are free."""
    program = [str(root / "spark-home" / "bin" / "spark-class")]
    at = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    java = {"JAVA_HOME": str(java_home(environment())), "SPARK_HOME": str(root / "spark-home")}
    with ExitStack() as daemons:
        log = root / "master.log"
        daemons.enter_context(process_group([*program, "org.apache.spark.deploy.master.Master", *at], log, java))
        master = until_said(log, r"Starting Spark master at (spark://\S+)")
        size = ["--cores", "1", "--memory", "1g"]
        for number in range(2):
            work = ["--work-dir", str(root / f"worker-{number}")]
            command = [*program, "org.apache.spark.deploy.worker.Worker", *at, *size, *work, master]
            daemons.enter_context(process_group(command, root / f"worker-{number}.log", java))
        until_said(log, "Registering worker", times=2)
        yield master


@contextmanager
def local_cluster(_root: Path) -> Iterator[str]:
    yield "local-cluster[2,1,1024]"


def driven(job: Job) -> dict[str, Any]:
    root = Path(job.root)
    command = [sys.executable, cluster_driver.__file__, json.dumps(job._asdict())]
    with process_group(command, root / "driver.log", {"SPARK_HOME": str(root / "spark-home")}) as driver:
        status = driver.wait(PATIENCE_S)
    assert status == 0, last_words(root / "driver.log")
    report: dict[str, Any] = json.loads((root / "report.json").read_text())
    return report


def numbers_of(node: NodeProcess, name: str) -> list[int]:
    with connect_blocking(node.url, token=node.token) as client:
        consumer = client.stream(name).consumer("earliest", until_end=True)
        return sorted(int((record.value or b"")[:12]) for record in consumer)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("cluster", [local_cluster, standalone])
def test_executors_read_write_and_archive_over_the_network(cluster: Any, tmp_path: Path) -> None:
    """In `local-cluster` one of them is killed on the way: its task runs again in another, and no row comes twice."""
    spark_home(tmp_path)
    kill = cluster is local_cluster
    with NodeProcess(tmp_path / "node", drain_timeout_s=1) as node:
        fill(node)
        with cluster(tmp_path) as master:
            report = driven(Job(master, node.url, node.token, str(tmp_path), str(node.data_dir), kill))
        assert numbers_of(node, TARGET) == list(range(TOTAL))
        with connect_blocking(node.url, token=node.token) as client:
            assert client.stream(SOURCE).group("cluster").lag == 0
            assert client.stream(TARGET).group("archive").lag == 0
    wanted = [number for number in range(TOTAL) if number // ROWS // 2 * ROWS + number % ROWS >= 1000]
    assert (report["count"], report["sum"], report["first"]) == (len(wanted), sum(wanted), 1000)
    check_places(report, tmp_path, len(wanted))
    assert report["query_tasks"].get("driver", 0) == 0
    assert sum(count > 0 for count in report["query_tasks"].values()) >= (1 if kill else 2)
    assert report["archived"] == TOTAL
    assert report["native"] == report["joined"] == [TOTAL, TOTAL, WHOLE_SUM]
    if kill:
        assert int((tmp_path / "killed").read_text()) > 0


def check_places(report: dict[str, Any], root: Path, rows: int) -> None:
    """Tasks ran in both executors, each in its own directory, and not in the driver."""
    assert sum(count for _, _, count in report["places"]) == rows
    directories = {directory for _, directory, count in report["places"] if count}
    assert {Path(directory).name for directory in directories} == {"0", "1"}
    assert all(Path(directory).is_relative_to(root) for directory in directories)
    assert report["driver"] not in {process for process, _, _ in report["places"]}
