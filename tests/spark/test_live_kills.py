"""From a live producer through a query into a stream and its archive, while driver, node and both are killed.

Whoever counts afterwards, whichever tier it reads, counts each record once.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

import flowmesh.spark
from flowmesh.base.errors import FlowMeshError
from flowmesh.client import connect_blocking
from flowmesh.testing import NodeProcess
from tests.spark.archives import archive_stream, by_directory, by_manifest, manifest_of, session
from tests.spark.processes import kill_group, last_words
from tests.spark.query_kills import PATIENCE_S, running, stored_count, stored_numbers, wait_for_more
from tests.spark.sink_query import GROUP, ROW_BYTES, Query

pytestmark = pytest.mark.usefixtures("spark")
SOURCE, TARGET = "produced", "passed-on"
BURST, PAUSE_S = 100, 0.05
"""Some 2,000 records a second: whenever it is struck, a query has something under way."""
SEGMENT_BYTES, RETENTION_BYTES = 65_536, 100_000


class LiveProducer:
    """Numbers as JSON, exactly once, from a thread; it does not stop for a node that is away."""

    def __init__(self, node: NodeProcess) -> None:
        self.sent = 0
        self._node = node
        self._over = threading.Event()
        self._failure: FlowMeshError | None = None
        self._thread = threading.Thread(target=self._run, name="live-producer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> int:
        """How many there are, when all are acknowledged."""
        self._over.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "what was sent was not acknowledged"
        assert self._failure is None, self._failure
        return self.sent

    def _run(self) -> None:
        try:
            with (
                connect_blocking(self._node.url, token=self._node.token) as client,
                client.stream(SOURCE).producer(delivery_timeout_s=PATIENCE_S) as producer,
            ):
                while not self._over.wait(PAUSE_S):
                    producer.send_many([b'{"n":%d}' % number for number in range(self.sent, self.sent + BURST)])
                    self.sent += BURST
        except FlowMeshError as error:
            self._failure = error


class Storm:
    """The query goes on over the death of its node, and is started again after its own."""

    def __init__(self, root: Path, node: NodeProcess, seed: int, prepared: str) -> None:
        self.kills: Counter[str] = Counter()
        self._root = root
        self._node = node
        self._chance = random.Random(seed)
        self._query = Query(
            node.url, node.token, str(root / "checkpoint"), TARGET, stream=SOURCE, prepared=prepared, drains=False
        )
        self._drivers = ExitStack()
        self._driver: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drivers.close()

    def round(self, who: str) -> None:
        """Strikes when more is stored than at the strike before: in the middle of a micro-batch, mostly."""
        driver = self._running()
        more = wait_for_more(self._node, TARGET, driver, stored_count(self._node, TARGET))
        assert more, last_words(self._root / "query.log")
        time.sleep(self._chance.uniform(0, 0.5))
        self.kills[who] += 1
        if who in ("driver", "both"):
            self._kill_driver(driver)
        if who in ("node", "both"):
            self._node.kill()
            time.sleep(self._chance.uniform(0, 1))
            self._node.start()

    def drain(self) -> None:
        """A last run, which reads what is there and ends by itself."""
        if self._driver is not None:
            kill_group(self._driver)
        with running(self._query._replace(drains=True), self._root / "query.log") as driver:
            assert driver.wait(PATIENCE_S) == 0, last_words(self._root / "query.log")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._driver is None:
            self._driver = self._drivers.enter_context(running(self._query, self._root / "query.log"))
        return self._driver

    def _kill_driver(self, driver: subprocess.Popen[bytes]) -> None:
        """At times only the Python process: the JVM that it leaves may write on while the next driver comes up."""
        if self._chance.random() < 0.5:
            kill_group(driver)
        else:
            driver.kill()
            driver.wait()
        self._driver = None


def kill_and_count(root: Path, rounds: list[str], seed: int, prepared: str) -> str:
    with NodeProcess(root / "node", drain_timeout_s=1, retention_interval_s=0.2) as node:
        prepare(node)
        with Storm(root, node, seed, prepared) as storm:
            with LiveProducer(node) as producer:
                for who in rounds:
                    storm.round(who)
                total = producer.end()
            storm.drain()
        require_followed(node, total)
        count_everywhere(node, root / "cold", total)
        return f"{dict(storm.kills)}: {total} records"


def prepare(node: NodeProcess) -> None:
    """The source keeps only what the query has not read: its group is there before the first record."""
    with connect_blocking(node.url, token=node.token) as client:
        client.create_stream(SOURCE, partitions=2, segment_bytes=SEGMENT_BYTES, retention_bytes=RETENTION_BYTES)
        client.stream(SOURCE).commit_group(GROUP, {0: 0, 1: 0}, kind="spark", hold_s=3600)
        client.create_stream(TARGET, partitions=3, segment_bytes=SEGMENT_BYTES)


def require_followed(node: NodeProcess, total: int) -> None:
    with connect_blocking(node.url, token=node.token) as client:
        source = client.stream(SOURCE)
        partitions = source.describe().partitions
        assert sum(facts.end_offset for facts in partitions) == total
        assert all(facts.start_offset > 0 for facts in partitions), "retention followed the query"
        group = source.group(GROUP)
        assert (group.kind, group.lag) == ("spark", 0)
        assert sum(facts.offset for facts in group.partitions) == total


def count_everywhere(node: NodeProcess, cold: Path, total: int) -> None:
    expected = list(range(total))
    assert stored_numbers(node, TARGET) == expected
    assert archive_stream(session(), node.url, node.token, node.data_dir, TARGET, cold).records == total
    # From here on a part of the target is in both tiers, and a part is in the cold one alone.
    trim_target(node)
    assert numbers_in(by_directory(cold)) == expected
    assert numbers_in(by_manifest(cold)) == expected
    assert sum(file.records for file in manifest_of(cold).files) == total
    assert numbers_in(session().read.parquet(str(cold)).select("value").toArrow()) == expected
    access = {"url": node.url, "token": node.token, "columns": "value"}
    joined = session().read.format("flowmesh").options(**access).load(TARGET)
    assert numbers_in(joined.toArrow()) == expected
    assert numbers_in(flowmesh.spark.read(session(), TARGET, **access).toArrow()) == expected


def trim_target(node: NodeProcess) -> None:
    with connect_blocking(node.url, token=node.token) as client:
        target = client.stream(TARGET)
        target.alter(retention_bytes=RETENTION_BYTES)
        deadline = time.monotonic() + PATIENCE_S
        while not all(facts.start_offset > 0 for facts in target.describe().partitions):
            assert time.monotonic() < deadline, "nothing was trimmed"
            time.sleep(0.05)


def numbers_in(table: Any) -> list[int]:
    values = table.column("value").to_pylist()
    assert {len(value) for value in values} == {ROW_BYTES}
    return sorted(int(value) for value in values)


@pytest.mark.timeout(400)
def test_a_killed_node_a_killed_driver_and_both_leave_each_record_once(tmp_path: Path) -> None:
    kill_and_count(tmp_path, ["node", "driver", "both"], seed=1, prepared="shuffled")


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("who", ["driver", "node", "both"])
def test_ten_kills_of_each_leave_each_record_once(tmp_path: Path, who: str) -> None:
    seed = time.time_ns()
    report = kill_and_count(tmp_path, [who] * 10, seed, prepared=random.Random(seed).choice(["plain", "shuffled"]))
    print(f"seed {seed}: {report}")  # noqa: T201 (figures of a long test)
