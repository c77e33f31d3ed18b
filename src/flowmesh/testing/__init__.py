"""For the tests of those who build on FlowMesh: a real node of their own. The pytest fixture is in `plugin`."""

from flowmesh.testing.node_process import NodeProcess

__all__ = ["NodeProcess"]
