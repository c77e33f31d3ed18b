"""The Spark session of this process, a node for the pipelines of this folder, and a place to run one in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowmesh.testing import NodeProcess
from tests.pipelines.runs import Pipelines
from tests.spark.conftest import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]


@pytest.fixture(scope="package")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """Shared by the tests of this folder. Each has streams with names of its own."""
    with NodeProcess(tmp_path_factory.mktemp("pipelines-node") / "data", drain_timeout_s=1) as running:
        yield running


@pytest.fixture
def pipelines(spark: SparkSession, node: NodeProcess, tmp_path: Path) -> Pipelines:
    return Pipelines(spark, node, tmp_path)


@pytest.fixture
def command_line(spark: SparkSession, node: NodeProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For commands within this process, which find the session that runs here: a state directory, and a login."""
    names = ("CONTEXT", "URL", "TOKEN", "TOKEN_FILE", "CA_FILE")  # also those that a run puts there are gone afterwards
    for name in names:
        monkeypatch.setenv(f"FLOWMESH_{name}", "")
        monkeypatch.delenv(f"FLOWMESH_{name}")
    monkeypatch.setenv("FLOWMESH_URL", node.url)
    monkeypatch.setenv("FLOWMESH_TOKEN", node.token)
    monkeypatch.setenv("FLOWMESH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("FLOWMESH_CONTEXTS", str(tmp_path / "contexts.yaml"))
    monkeypatch.chdir(tmp_path)
