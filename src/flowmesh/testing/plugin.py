"""A pytest plugin: `pytest_plugins = ["flowmesh.testing.plugin"]` in a `conftest.py`, and `flowmesh_node` is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flowmesh.testing.node_process import NodeProcess


@pytest.fixture
def flowmesh_node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node of this test alone, in a directory of its own, on free ports. It may be stopped, killed and restarted."""
    with NodeProcess(tmp_path / "flowmesh-data") as node:
        yield node
