"""A real node for the commands that talk to one, and a home without contexts for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.nodes import Served, serving


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("node") / "data") as node:
        yield node


@pytest.fixture
def contexts_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `login` keeps what it is told; nothing of this machine's user is seen."""
    for name in ("CONTEXT", "URL", "TOKEN", "TOKEN_FILE", "CA_FILE"):
        monkeypatch.delenv(f"FLOWMESH_{name}", raising=False)
    place = tmp_path / "home" / "contexts.yaml"
    monkeypatch.setenv("FLOWMESH_CONTEXTS", str(place))
    monkeypatch.chdir(tmp_path)
    return place


@pytest.fixture
def node(served: Served, contexts_file: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    """The node, known to every command."""
    monkeypatch.setenv("FLOWMESH_URL", served.facts["frames"])
    monkeypatch.setenv("FLOWMESH_TOKEN_FILE", served.facts["token_file"])
    return served
