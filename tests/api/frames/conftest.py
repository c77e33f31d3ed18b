"""One node for the tests of this folder that leave it as they found it; each uses streams of its own name."""

from collections.abc import Iterator

import pytest

from flowmesh.testing import NodeProcess
from tests.api.frames.node_thread import NodeThread, node_thread
from tests.api.frames.wire import Wire


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeThread]:
    with node_thread(tmp_path_factory.mktemp("frames") / "data") as running:
        yield running


@pytest.fixture
def wire(node: NodeThread) -> Iterator[Wire]:
    with Wire(node.port, node.token) as opened:
        yield opened


@pytest.fixture
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("process") / "data") as running:
        yield running
