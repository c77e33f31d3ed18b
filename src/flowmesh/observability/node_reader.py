"""What a node, its partitions and its writer know about themselves, read at a scrape and turned into metrics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from flowmesh.base.version import VERSION
from flowmesh.host.writer import WriterThread
from flowmesh.node.node import Node
from flowmesh.node.partition import StreamPartition
from flowmesh.observability import group_reader, process_reader
from flowmesh.observability.families import histogram
from flowmesh.observability.rates import Rates
from flowmesh.ports.clock import Clock

STREAM_SERIES_MAX = 1_000
"""Streams with series of their own: the oldest ones. All others are added up as one, under `OTHERS`."""
OTHERS = "(others)"
"""No tenant, namespace or stream can have that name."""

Labels = tuple[str, str, str]
_STREAM_LABELS = ("tenant", "namespace", "stream")


class NodeReader:
    """Belongs to one node. Nothing here changes what it reads."""

    def __init__(self, node: Node, writer: WriterThread, clock: Clock, loop: asyncio.AbstractEventLoop | None) -> None:
        self._node = node
        self._writer = writer
        self._clock = clock
        self._loop = loop
        self._started_s = clock.wall_ns() / 1e9
        self._rates: Rates[Labels] = Rates(clock.monotonic_ns(), self._messages())

    def sample(self) -> None:
        """To be called every few seconds, so that throughput is that of the last seconds whoever scrapes when."""
        self._rates.sample(self._clock.monotonic_ns(), self._messages())

    def _messages(self) -> dict[Labels, int]:
        return self._by_stream(lambda partition: partition.view.end_offset)

    def collect(self) -> Iterator[Metric]:
        yield from self._of_node()
        yield from self._of_streams()
        yield from group_reader.collect(self._node)
        yield from self._of_commits()
        yield from self._of_faults()
        yield from process_reader.collect(self._loop)

    # --- the parts ----------------------------------------------------------------------------------------------

    def _of_node(self) -> Iterator[Metric]:
        state = self._node.catalog.machine.state
        yield InfoMetricFamily("flowmesh_node", "Which node this is.", {"id": self._node.id, "version": VERSION})
        yield GaugeMetricFamily(
            "flowmesh_node_start_time_seconds", "When the node started, since 1970.", self._started_s
        )
        yield GaugeMetricFamily("flowmesh_node_disk_bytes_used", "Bytes of all segments of all logs.", self._used())
        free = self._free()
        if free is not None:
            yield GaugeMetricFamily("flowmesh_node_disk_bytes_free", "Bytes free on the disk of the data.", free)
        kept = GaugeMetricFamily("flowmesh_node_resources", "What the node knows by name.", labels=["kind"])
        groups = sum(map(len, list(self._node.groups.machine.groups.values())))
        for kind, count in (
            ("tenant", len(state.tenants)),
            ("stream", len(state.streams)),
            ("group", groups),
            ("token", len(state.tokens)),
        ):
            kept.add_metric([kind], count)
        yield kept

    def _of_streams(self) -> Iterator[Metric]:
        messages = CounterMetricFamily(
            "flowmesh_stream_messages", "Records that the stream was ever given; goes on after a restart.",
            labels=_STREAM_LABELS,
        )  # fmt: skip
        rate = GaugeMetricFamily(
            "flowmesh_stream_throughput_messages_per_second", "Records appended a second, over the last 5 to 10 s.",
            labels=_STREAM_LABELS,
        )  # fmt: skip
        size = GaugeMetricFamily("flowmesh_stream_disk_bytes_used", "Bytes of its segments.", labels=_STREAM_LABELS)
        now_ns = self._clock.monotonic_ns()
        for labels, count in self._messages().items():
            messages.add_metric(labels, count)
            rate.add_metric(labels, self._rates.per_second(labels, now_ns, count))
        for labels, bytes_used in self._by_stream(lambda partition: partition.view.size_bytes).items():
            size.add_metric(labels, bytes_used)
        yield from (messages, rate, size)

    def _of_commits(self) -> Iterator[Metric]:
        counted = self._node.statistics
        for name, text, values, scale in (
            ("flowmesh_commit_records", "Records of one group commit of one partition.", counted.records, 1.0),
            ("flowmesh_commit_bytes", "Bytes of one group commit of one partition.", counted.size_bytes, 1.0),
            ("flowmesh_fsync_duration_seconds", "Time of one fsync of a partition.", counted.sync_ns, 1e-9),
        ):
            yield histogram(HistogramMetricFamily(name, text, labels=()), (), values, scale)
        yield GaugeMetricFamily(
            "flowmesh_writer_queue_bytes", "Bytes that wait for the writer.", self._writer.queued_bytes
        )

    def _of_faults(self) -> Iterator[Metric]:
        partitions = list(self._partitions())
        damaged = sum(1 for partition in partitions if partition.view.damage)
        failed = sum(1 for partition in partitions if partition.failure is not None)
        yield GaugeMetricFamily("flowmesh_partitions", "Partitions that are open.", len(partitions))
        yield GaugeMetricFamily("flowmesh_partitions_damaged", "Partitions with a range that is refused.", damaged)
        yield GaugeMetricFamily("flowmesh_partitions_failed", "Partitions that take no appends.", failed)
        yield GaugeMetricFamily(
            "flowmesh_streams_unopened", "Streams that could not be opened at all.", len(self._node.damaged)
        )
        catalog = self._node.catalog.appender.failure is not None
        yield GaugeMetricFamily("flowmesh_catalog_failed", "1 when the catalog takes no changes.", int(catalog))
        notes = GaugeMetricFamily(
            "flowmesh_recovery_notes", "What opening the logs found and did, by what was done.", labels=["action"]
        )
        done = Counter(note.action.value for partition in partitions for note in partition.appender.notes)
        for action, count in sorted(done.items()):
            notes.add_metric([action], count)
        yield notes

    # --- reading ------------------------------------------------------------------------------------------------

    def _partitions(self) -> Iterator[StreamPartition]:
        for opened in self._node.streams.values():
            yield from opened.partitions

    def _by_stream(self, measure: Callable[[StreamPartition], int]) -> dict[Labels, int]:
        """The sum over the partitions of each stream, the oldest stream first; of those past the limit, one sum."""
        found: dict[Labels, int] = {}
        for key, opened in sorted(self._node.streams.items(), key=lambda item: item[1].stream.id):
            labels = key if len(found) < STREAM_SERIES_MAX else (OTHERS, OTHERS, OTHERS)
            found[labels] = found.get(labels, 0) + sum(map(measure, opened.partitions))
        return found

    def _used(self) -> int:
        streams = sum(partition.view.size_bytes for partition in self._partitions())
        return streams + self._node.catalog.appender.view.size_bytes + self._node.groups.appender.view.size_bytes

    def _free(self) -> int | None:
        try:
            return self._node.free_bytes()
        except OSError:
            return None
