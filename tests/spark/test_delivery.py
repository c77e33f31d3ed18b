"""Rows of one task on their way to a real node: broken off, begun again in another order, by two attempts at once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from flowmesh.client import connect_blocking
from flowmesh.format.batch import Codec
from flowmesh.spark import lanes, replays
from flowmesh.spark.delivery import Delivery
from flowmesh.spark.errors import Condition, FlowMeshSparkError
from flowmesh.spark.lanes import ProducerName
from flowmesh.spark.options import NodeAccess, Secret, StreamName
from flowmesh.spark.sink_options import SinkPlan
from flowmesh.testing import NodeProcess

PATIENCE_NS = 60_000_000_000
ROWS = 400
PRODUCER = ProducerName(77, 5)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("delivery") / "data") as running:
        yield running


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few hundred rows are more batches than a node remembers."""
    monkeypatch.setattr(lanes, "BATCH_BYTES", 600)


def plan(
    node: NodeProcess, name: str, *, partitions: int = 1, by_rows: bool = True, patience_ns: int = PATIENCE_NS
) -> SinkPlan:
    with connect_blocking(node.url, token=node.token) as client:
        client.create_stream(name, partitions=partitions)
    access = NodeAccess(node.url, Secret(node.token), None, None, patience_ns)
    return SinkPlan(StreamName("default", "default", name), access, False, Codec.NONE, by_rows, None)


def values(first: int = 0, end: int = ROWS) -> list[bytes]:
    return [b"row-%06d" % number for number in range(first, end)]


def batches(found: Sequence[bytes], rows: int = 23) -> list[pa.RecordBatch]:
    return [
        pa.record_batch({"value": pa.array(found[first : first + rows], pa.binary())})
        for first in range(0, len(found), rows)
    ]


def attempt(
    plan: SinkPlan,
    found: Sequence[bytes],
    *,
    until: int | None = None,
    producer: ProducerName = PRODUCER,
    spread: int = 1,
) -> Delivery:
    """Hands rows over; breaks off after so many batches, whatever is under way then."""
    with Delivery(plan, producer) as delivery:
        for position, batch in enumerate(batches(found)):
            if position == until:
                return delivery
            delivery.put(position % spread, batch)
        delivery.finish()
    return delivery


def stored(node: NodeProcess, name: str) -> list[bytes]:
    found: list[bytes] = []
    with connect_blocking(node.url, token=node.token) as client:
        stream = client.stream(name)
        for facts in stream.describe().partitions:
            offset = facts.start_offset
            while offset < facts.end_offset:
                for batch in stream.read(offset, partition=facts.partition):
                    found += [value for value in batch.values() if value is not None]
                    offset = batch.end_offset
    return found


def test_a_task_stores_its_rows_in_their_order(node: NodeProcess) -> None:
    done = attempt(plan(node, "once"), values())
    assert stored(node, "once") == values()
    assert (done.rows, done.found) == (ROWS, 0)


def test_a_task_that_ran_to_its_end_stores_nothing_when_it_runs_again(node: NodeProcess) -> None:
    where = plan(node, "twice", partitions=3)
    attempt(where, values(), spread=3)
    again = attempt(where, values(), spread=3)
    assert sorted(stored(node, "twice")) == values()
    assert again.found == ROWS


@pytest.mark.parametrize("until", [1, 2, 5, 9, 17])
def test_an_attempt_goes_on_where_the_one_before_was_broken_off(node: NodeProcess, until: int) -> None:
    where = plan(node, f"broken-{until}")
    attempt(where, values(), until=until)
    attempt(where, values())
    assert stored(node, f"broken-{until}") == values()


@pytest.mark.parametrize("seed", range(6))
def test_attempts_that_bring_their_rows_in_other_orders_store_each_row_once(node: NodeProcess, seed: int) -> None:
    """With rows that are there several times: each counts."""
    chance = random.Random(seed)
    where = plan(node, f"orders-{seed}")
    rows = values() + values(0, 90) + values(0, 30)
    for _ in range(3):
        chance.shuffle(rows)
        attempt(where, rows, until=chance.randrange(1, 20))
    chance.shuffle(rows)
    attempt(where, rows)
    assert Counter(stored(node, f"orders-{seed}")) == Counter(rows)


@pytest.mark.parametrize("shuffled", [False, True])
def test_two_attempts_at_once_store_each_row_once(node: NodeProcess, shuffled: bool) -> None:
    where = plan(node, f"speculative-{int(shuffled)}", partitions=2)
    failures: list[BaseException] = []

    def run(seed: int) -> None:
        rows = batches(values(0, 2 * ROWS))
        order = list(range(len(rows)))
        if shuffled:
            random.Random(seed).shuffle(order)
        try:
            with Delivery(where, PRODUCER) as delivery:
                for position in order:
                    delivery.put(position % 2, rows[position])
                delivery.finish()
        except FlowMeshSparkError as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(stored(node, f"speculative-{int(shuffled)}")) == values(0, 2 * ROWS)


def test_rows_are_told_by_all_that_they_hold(node: NodeProcess) -> None:
    """The same value under another key or at another time is another row."""
    where = plan(node, "whole-rows")
    rows = pa.record_batch(
        {
            "value": pa.array([b"v"] * 4, pa.binary()),
            "key": pa.array([b"a", b"b", None, b"a"], pa.binary()),
            "timestamp": pa.array([5, 5, 5, 6], pa.timestamp("ns", "UTC")),
            "headers": pa.array([[], [(b"n", b"1")], [], []], pa.map_(pa.binary(), pa.binary())),
        }
    )
    with Delivery(where, PRODUCER) as delivery:
        delivery.put(0, rows.slice(1, 1))
        delivery.finish()
    with Delivery(where, PRODUCER) as delivery:
        delivery.put(0, rows)
        delivery.finish()
    with connect_blocking(node.url, token=node.token) as client:
        found = [record for batch in client.stream("whole-rows").read(0) for record in batch.records()]
    assert sorted((record.key, record.time_ns, record.headers) for record in found if record.key) == [
        (b"a", 5, ()),
        (b"a", 6, ()),
        (b"b", 5, ((b"n", b"1"),)),
    ]
    assert len(found) == 4


def test_rows_of_other_writers_in_between_do_not_matter(node: NodeProcess) -> None:
    where = plan(node, "company")
    attempt(where, values(), until=6)
    with connect_blocking(node.url, token=node.token) as client:
        client.stream("company").append_many([b"of somebody else"] * 50, partition=0)
    attempt(where, values(), until=12)
    attempt(where, [b"other"] * 60, producer=ProducerName(78, 5))
    attempt(where, values())
    found = Counter(stored(node, "company"))
    assert found.pop(b"of somebody else") == 50
    assert found.pop(b"other") == 60
    assert found == Counter(values())


def test_a_newer_micro_batch_fences_a_leftover_of_the_one_before(node: NodeProcess) -> None:
    where = plan(node, "fenced")
    with Delivery(where, PRODUCER) as leftover:
        leftover.put(0, batches(values(0, 100), 100)[0])
        attempt(where, values(), producer=ProducerName(77, 6))
        leftover.put(0, batches(values(100, 110))[0])
        with pytest.raises(FlowMeshSparkError, match="newer micro-batch") as raised:
            leftover.finish()
    assert raised.value.condition is Condition.FENCED


def test_an_attempt_that_brings_other_rows_is_refused_before_it_adds_any(node: NodeProcess) -> None:
    where = plan(node, "random")
    attempt(where, values(0, 100), until=3)
    before = len(stored(node, "random"))
    with pytest.raises(FlowMeshSparkError, match="does not bring") as raised:
        attempt(where, values(1000, 1100))
    assert (raised.value.condition, raised.value.option) == (Condition.REPLAY_DIFFERS, "replay")
    assert len(stored(node, "random")) >= before
    assert set(stored(node, "random")) <= set(values(0, 100))


def test_an_attempt_that_brings_fewer_rows_is_refused(node: NodeProcess) -> None:
    where = plan(node, "fewer")
    attempt(where, values(0, 100))
    with pytest.raises(FlowMeshSparkError, match="stored 60 rows"):
        attempt(where, values(0, 40))


def test_rows_that_are_made_at_random_can_be_counted_instead(node: NodeProcess) -> None:
    where = plan(node, "counted", by_rows=False)
    attempt(where, values(0, 100), until=3)
    attempt(where, values(1000, 1100))
    found = stored(node, "counted")
    assert len(found) == 100
    earlier = len(set(found) & set(values(0, 100)))
    assert found == values(0, earlier) + values(1000 + earlier, 1100)


def test_more_rows_than_may_be_held_back_go_out_early(node: NodeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "HELD_BYTES_MAX", 1000)
    where = plan(node, "held")
    attempt(where, values(), until=4)
    rows = values()
    random.Random(1).shuffle(rows)
    attempt(where, rows)
    assert sorted(stored(node, "held")) == values()


def test_a_node_that_is_killed_and_comes_back_is_waited_for(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        where = plan(node, "killed", partitions=2)
        rows = batches(values(0, 3000))

        def disturb() -> None:
            for _ in range(3):
                time.sleep(0.2)
                node.kill()
                node.start()

        killer = threading.Thread(target=disturb)
        with Delivery(where, PRODUCER) as delivery:
            killer.start()
            for position, batch in enumerate(rows):
                delivery.put(position % 2, batch)
                time.sleep(0.01)
            delivery.finish()
        killer.join()
        assert sorted(stored(node, "killed")) == values(0, 3000)


def test_a_node_that_stays_away_is_given_up_with_the_option_that_waits_longer(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        where = plan(node, "away", patience_ns=400_000_000)
        with Delivery(where, PRODUCER) as delivery:
            delivery.put(0, batches(values(0, 100), 100)[0])
            node.kill()
            with pytest.raises(FlowMeshSparkError) as raised:
                delivery.finish()
        node.start()
    assert (raised.value.condition, raised.value.option) == (Condition.NODE_UNREACHABLE, "reconnectTimeout")


def test_a_token_that_ends_is_replaced_by_what_its_file_holds_now(node: NodeProcess, tmp_path: Path) -> None:
    """Over a connection that the old one has opened, with batches under way in two partitions."""
    where, file = plan(node, "rotated", partitions=2), tmp_path / "token"
    where = where._replace(node=where.node._replace(token=None, token_file=str(file)))
    with connect_blocking(node.url, token=node.token) as client:
        old = client.create_token(tenant="default", permissions=["stream.read", "stream.write"])
        file.write_text(old.token)
        with Delivery(where, PRODUCER) as delivery:
            for position, batch in enumerate(batches(values())):
                if position == 7:
                    file.write_text(client.rotate_token(old.id, overlap_s=0).token)
                if position == 14:
                    client.revoke_token(file.read_text().partition(".")[0])
                    file.write_text(node.token)
                delivery.put(position % 2, batch)
            delivery.finish()
        assert sorted(stored(node, "rotated")) == values()
        file.write_text(old.token)
        with pytest.raises(FlowMeshSparkError) as raised:
            attempt(where, values())
    assert raised.value.condition is Condition.TOKEN_REFUSED


def test_many_partitions_keep_what_waits_within_its_bound(node: NodeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowmesh.spark.delivery.WAITING_BYTES_MAX", 2_000)
    where = plan(node, "wide", partitions=40)
    with Delivery(where, PRODUCER) as delivery:
        for position, batch in enumerate(batches(values(), 3)):
            delivery.put(position % 40, batch)
            delivery.relieve()
            assert sum(lane.waiting_bytes for lane in delivery._lanes.values()) <= 2_000
        delivery.finish()
    assert sorted(stored(node, "wide")) == values()


def test_large_rows_among_small_ones_are_cut_into_batches_that_a_node_takes(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "BATCH_BYTES", 2**20)
    where = plan(node, "large")
    rows = [b"x"] * 500 + [bytes(9 * 2**20)] * 5 + [b"y"] * 500
    attempt_rows = pa.record_batch({"value": pa.array(rows, pa.binary())})
    with Delivery(where, PRODUCER) as delivery:
        delivery.put(0, attempt_rows)
        delivery.finish()
    assert stored(node, "large") == rows
