"""What is counted, and how it is shown."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from flowmesh.base.distribution import Distribution
from flowmesh.catalog.model import StreamSettings
from flowmesh.observability import metrics as metrics_module
from flowmesh.observability import node_reader
from flowmesh.observability.metrics import Metrics
from flowmesh.observability.rates import Rates
from flowmesh.sim.clock import SimClock
from flowmesh.sim.disk import SimDisk
from tests.node.worlds import World, commit_to, record
from tests.observability.nodes import ORDERS, busy_metrics, reading

SECOND_NS = 1_000_000_000
OF_ORDERS = ("shop", "orders", "default")
"""Namespace, stream and tenant."""


def samples(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every sample of the rendered page, by its name and the values of its labels, sorted by the labels' names."""
    body, content_type = metrics.render()
    assert content_type.startswith("text/plain")
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


@pytest.fixture
def world() -> World:
    made = World(SimDisk(5))
    made.open()
    made.create(ORDERS, StreamSettings(partitions=2))
    return made


def test_records_are_counted_by_stream_and_survive_a_restart(world: World) -> None:
    commit_to(world.node, ORDERS, *(record(b"x") for _ in range(7)))
    world.node.close()
    world.open()
    with reading(world, SimClock()) as reader:
        assert samples(Metrics(reader))["flowmesh_stream_messages_total", OF_ORDERS] == 7


def test_throughput_is_that_of_the_last_seconds(world: World) -> None:
    clock = SimClock()
    with reading(world, clock) as reader:
        for _ in range(20):
            commit_to(world.node, ORDERS, *(record(b"x") for _ in range(100)))
            clock.advance(SECOND_NS)
            reader.sample()
        metrics = Metrics(reader)
        key = ("flowmesh_stream_throughput_messages_per_second", OF_ORDERS)
        assert samples(metrics)[key] == pytest.approx(100)
        for _ in range(3):
            clock.advance(6 * SECOND_NS)
            reader.sample()
        assert samples(metrics)[key] == 0


def test_commits_and_fsyncs_are_counted(world: World) -> None:
    for count in (1, 50):
        commit_to(world.node, ORDERS, *(record(b"x") for _ in range(count)))
    with reading(world, SimClock()) as reader:
        found = samples(Metrics(reader))
    assert (found["flowmesh_commit_records_count", ()], found["flowmesh_commit_records_sum", ()]) == (2, 51)
    assert found["flowmesh_commit_records_bucket", ("1.0",)] == 1
    assert found["flowmesh_commit_records_bucket", ("100.0",)] == 2
    assert found["flowmesh_fsync_duration_seconds_count", ()] == 2
    assert found["flowmesh_commit_bytes_sum", ()] > 51


def test_streams_past_the_limit_are_added_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_reader, "STREAM_SERIES_MAX", 1)
    for name in ("b", "a"):
        world.create(("default", "shop", name), StreamSettings())
        commit_to(world.node, ("default", "shop", name), record(b"x"))
    with reading(world, SimClock()) as reader:
        found = samples(Metrics(reader))
    shown = {labels: value for (name, labels), value in found.items() if name == "flowmesh_stream_messages_total"}
    assert shown == {OF_ORDERS: 0, ("(others)",) * 3: 2}


def test_faults_are_counted(world: World) -> None:
    with reading(world, SimClock()) as reader, busy_metrics() as torn:
        metrics = Metrics(reader)
        assert samples(metrics)["flowmesh_partitions_failed", ()] == 0
        world.disk.fail("sync", path="*/streams/*")
        with pytest.raises(Exception, match="fsync failed"):
            commit_to(world.node, ORDERS, record(b"x"))
        assert samples(metrics)["flowmesh_partitions_failed", ()] == 1
        assert samples(metrics)["flowmesh_partitions", ()] == 2
        assert samples(torn)["flowmesh_recovery_notes", ("cut",)] >= 1


def test_latencies_and_connections_come_from_the_wires() -> None:
    metrics = Metrics()
    for duration in (0.0001, 0.003, 100):
        metrics.operation("stream.read", "frames", duration, "OK")
    for change in (1, 1, -1):
        metrics.connections("frames", change)
    found = samples(metrics)
    name = "flowmesh_operation_duration_seconds"
    by_bound = {key[1][0]: value for key, value in found.items() if key[0] == f"{name}_bucket"}
    assert (by_bound["0.0001"], by_bound["0.005"], by_bound["60.0"], by_bound["+Inf"]) == (1, 2, 2, 3)
    assert found[f"{name}_count", ("stream.read", "OK", "frames")] == 3
    assert found["flowmesh_connections", ("frames",)] == 1
    assert found["flowmesh_connections_opened_total", ("frames",)] == 2


def test_series_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "SERIES_MAX", 3)
    metrics = Metrics()
    for number in range(10):
        metrics.operation(f"operation-{number}", "http", 0.1, "OK")
    assert len({labels for name, labels in samples(metrics) if name.endswith("_count")}) == 3


def test_a_scrape_of_two_nodes_in_one_process_does_not_mix_them() -> None:
    one, other = Metrics(), Metrics()
    one.connections("http", 1)
    assert ("flowmesh_connections", ("http",)) not in samples(other)


def test_a_distribution_counts_its_bounds_in() -> None:
    values = Distribution((1, 10))
    for value in (0, 1, 2, 10, 11):
        values.add(value)
    assert (values.counts, values.total, values.count) == ([2, 2, 1], 24, 5)


def test_a_rate_of_what_was_not_there_begins_at_nothing() -> None:
    rates: Rates[str] = Rates(0, {})
    assert rates.per_second("a", 0, 5) == 0
    assert rates.per_second("a", 2 * SECOND_NS, 10) == 5
    rates.sample(5 * SECOND_NS, {"a": 10})
    assert rates.per_second("a", 10 * SECOND_NS, 10) == 1
    rates.sample(10 * SECOND_NS, {"a": 10})
    assert rates.per_second("a", 15 * SECOND_NS, 5) == 0, "a stream that was deleted and made again"
