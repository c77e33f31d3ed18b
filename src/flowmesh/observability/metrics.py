"""Metrics of one node in the format of Prometheus: what wires report, and what is read from the node at each scrape."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from flowmesh.base.distribution import Distribution
from flowmesh.observability.families import histogram
from flowmesh.observability.node_reader import NodeReader

LATENCY_S = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0
)  # fmt: skip
SERIES_MAX = 2_000
"""Combinations of operation, wire and outcome: more than the tables of operations and errors can make."""


class Metrics(Collector):
    """An `api.observer.Observer`. Wires call it on the event loop; a scrape reads, on whatever thread it likes."""

    def __init__(self, node: NodeReader | None = None) -> None:
        self.node = node
        """Until it is known, only what the wires report is shown."""
        self._latencies: dict[tuple[str, str, str], Distribution] = {}
        self._open: dict[str, int] = {}
        self._opened: dict[str, int] = {}
        self.denials: dict[str, int] = {}
        """How often something was refused, by error code. The audit log counts here."""
        self.registry = CollectorRegistry()
        self.registry.register(self)

    # --- api.observer.Observer ----------------------------------------------------------------------------------

    def operation(self, name: str, wire: str, duration_s: float, outcome: str) -> None:
        latency = self._latencies.get((name, wire, outcome))
        if latency is None:
            if len(self._latencies) >= SERIES_MAX:
                return
            latency = self._latencies[name, wire, outcome] = Distribution(LATENCY_S)
        latency.add(duration_s)

    def connections(self, wire: str, change: int) -> None:
        self._open[wire] = self._open.get(wire, 0) + change
        if change > 0:
            self._opened[wire] = self._opened.get(wire, 0) + change

    # --- what is shown ------------------------------------------------------------------------------------------

    def render(self) -> tuple[bytes, str]:
        """The page of `/metrics` and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def collect(self) -> Iterator[Metric]:
        yield self._durations()
        yield from self._connections()
        denials = CounterMetricFamily(
            "flowmesh_denials", "Requests that were refused before they reached the node.", labels=["code"]
        )
        for code, count in sorted(self.denials.items()):
            denials.add_metric([code], count)
        yield denials
        if self.node is not None:
            yield from self.node.collect()

    def describe(self) -> list[Metric]:
        """Nothing is asked of the node when the registry is made."""
        return []

    def _durations(self) -> Metric:
        family = HistogramMetricFamily(
            "flowmesh_operation_duration_seconds",
            "Time from a request to its reply; the waiting of long polls is part of it.",
            labels=["operation", "wire", "outcome"],
        )
        for labels, latency in sorted(self._latencies.items()):
            histogram(family, labels, latency)
        return family

    def _connections(self) -> Iterator[Metric]:
        now = GaugeMetricFamily("flowmesh_connections", "Connections that are open.", labels=["wire"])
        ever = CounterMetricFamily("flowmesh_connections_opened", "Connections ever accepted.", labels=["wire"])
        for wire in sorted(self._opened):
            now.add_metric([wire], self._open[wire])
            ever.add_metric([wire], self._opened[wire])
        yield now
        yield ever
