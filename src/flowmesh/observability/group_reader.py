"""How far behind the groups of a node's streams are, and how long their holds last, as metrics."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from flowmesh.groups.model import Group
from flowmesh.node.node import Node
from flowmesh.node.streams import OpenStream

GROUP_SERIES_MAX = 1_000
"""Groups with series of their own, those of the oldest streams first. All others are one, under `OTHERS`."""
OTHERS = "(others)"
_LABELS = ("tenant", "namespace", "stream", "group")
_NANOSECONDS = 1_000_000_000


def collect(node: Node) -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        "flowmesh_group_lag_records", "Records that a group has not read, over the partitions it has committed.",
        labels=_LABELS,
    )  # fmt: skip
    left = GaugeMetricFamily(
        "flowmesh_group_hold_seconds_left", "How long a group's hold lasts without a commit; 0 when it is over.",
        labels=_LABELS,
    )  # fmt: skip
    found, ran_ns = _groups(node), node.groups.ran_ns()
    for opened, group in islice(found, GROUP_SERIES_MAX):
        labels = (opened.stream.tenant, opened.stream.namespace, opened.stream.name, group.name)
        lag.add_metric(labels, _lag(opened, group))
        left_ns = group.hold_left_ns(ran_ns)
        if left_ns is not None:
            left.add_metric(labels, max(left_ns, 0) / _NANOSECONDS)
    others = list(found)
    if others:
        lag.add_metric([OTHERS] * len(_LABELS), sum(_lag(opened, group) for opened, group in others))
        lasting = [left_ns for _, group in others if (left_ns := group.hold_left_ns(ran_ns)) is not None]
        if lasting:
            left.add_metric([OTHERS] * len(_LABELS), max(min(lasting), 0) / _NANOSECONDS)
    yield lag
    yield left
    yield GaugeMetricFamily(
        "flowmesh_groups_failed", "1 when no group can commit.", int(node.groups.failure is not None)
    )


def _groups(node: Node) -> Iterator[tuple[OpenStream, Group]]:
    for opened in sorted(node.streams.values(), key=lambda opened: opened.stream.id):
        for group in sorted(node.groups.machine.of_stream(opened.stream.id), key=lambda group: group.name):
            yield opened, group


def _lag(opened: OpenStream, group: Group) -> int:
    ends = [partition.view.end_offset for partition in opened.partitions]
    return sum(max(ends[number] - offset, 0) for number, offset in group.offsets.items())
