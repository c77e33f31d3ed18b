"""A query that is killed, as its test sees it: its process, how much it has stored, and what is stored in the end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

from flowmesh.client import connect_blocking
from flowmesh.testing import NodeProcess
from tests.spark import sink_query
from tests.spark.processes import process_group
from tests.spark.sink_query import Query

PATIENCE_S = 200.0


def running(query: Query, log: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return process_group([sys.executable, sink_query.__file__, json.dumps(query._asdict())], log)


def stored_count(node: NodeProcess, stream: str) -> int:
    with connect_blocking(node.url, token=node.token) as client:
        return sum(facts.end_offset for facts in client.stream(stream).describe().partitions)


def wait_for_more(node: NodeProcess, stream: str, driver: subprocess.Popen[bytes], than: int) -> bool:
    """Whether more is stored; otherwise the query has ended, or time is up."""
    deadline = time.monotonic() + PATIENCE_S
    while driver.poll() is None and time.monotonic() < deadline:
        if stored_count(node, stream) > than:
            return True
        time.sleep(0.02)
    return False


def stored_numbers(node: NodeProcess, stream: str) -> list[int]:
    """By the client: each record of the log once, wherever it lies."""
    with connect_blocking(node.url, token=node.token) as client:
        consumer = client.stream(stream).consumer("earliest", until_end=True)
        return sorted(int(value or b"-1") for batch in consumer.batches() for value in batch.values())
