"""What the operating system says about this process. A number that it does not tell is left out."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

_DESCRIPTORS = "/dev/fd"
_MEMORY = "/proc/self/statm"


def collect(loop: asyncio.AbstractEventLoop | None) -> Iterator[Metric]:
    used = descriptors_used()
    if used is not None:
        yield _gauge("flowmesh_node_file_descriptors_used", "File descriptors that are open.", used)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield _gauge("flowmesh_node_file_descriptors_max", "File descriptors that the process may open.", soft)
    yield _gauge("flowmesh_node_threads", "Threads that are alive.", threading.active_count())
    if loop is not None:
        yield _gauge("flowmesh_node_tasks", "Tasks of the event loop that are not done.", len(asyncio.all_tasks(loop)))
    resident = resident_bytes()
    if resident is not None:
        yield _gauge("flowmesh_node_resident_bytes", "Memory of the process that is in RAM.", resident)


def descriptors_used() -> int | None:
    try:
        return len(os.listdir(_DESCRIPTORS)) - 1  # the listing needs one itself
    except OSError:
        return None


def resident_bytes() -> int | None:
    try:
        with open(_MEMORY, encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return None


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)
