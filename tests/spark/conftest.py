"""One Spark session for all tests of a worker, and nodes of their own for those who restart them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowmesh.testing import NodeProcess
from tests.spark.streams import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """`local[2]`, on loopback only, with push-down as `flowmesh.spark.session` sets it."""
    from flowmesh.spark.sessions import session

    os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1"
    for name in [name for name in os.environ if name.startswith("FLOWMESH_")]:
        del os.environ[name]
    place = tmp_path_factory.mktemp("spark")
    home = {"spark.local.dir": str(place / "local"), "spark.sql.warehouse.dir": str(place / "warehouse")}
    running = session("local[2]", app_name="flowmesh-tests", conf=_SETTINGS | home)
    yield running
    running.stop()


@pytest.fixture(scope="package")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """Shared by the tests of this folder, which leave it running."""
    with NodeProcess(tmp_path_factory.mktemp("spark-node") / "data", drain_timeout_s=1) as running:
        yield running


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[NodeProcess]:
    """To be stopped, killed and started again."""
    with NodeProcess(tmp_path / "node", drain_timeout_s=1, retention_interval_s=0.2) as running:
        yield running


@pytest.fixture
def stream(node: NodeProcess, request: pytest.FixtureRequest) -> Stream:
    """A stream of this test alone, with two partitions."""
    name = request.node.name.removeprefix("test_").replace("_", "-").partition("[")[0][:40].strip("-")
    return Stream.create(node, f"{name}-{abs(hash(request.node.nodeid)) % 10_000}", partitions=2)
