"""Everything that can be explored, by its name: the log's workloads and the node's."""

from __future__ import annotations

from collections.abc import Mapping

from flowmesh.sim.node_workloads import NODE_WORKLOADS
from flowmesh.sim.scenario import Scenario
from flowmesh.sim.workloads import WORKLOADS

SCENARIOS: Mapping[str, Scenario] = {
    **{name: workload.scenario for name, workload in WORKLOADS.items()},
    **{name: workload.scenario for name, workload in NODE_WORKLOADS.items()},
}
