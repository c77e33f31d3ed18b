"""One node, a process of its own, for the tests of this folder that leave it running."""

from collections.abc import Iterator

import pytest

from flowmesh.testing import NodeProcess


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("client") / "data") as running:
        yield running
