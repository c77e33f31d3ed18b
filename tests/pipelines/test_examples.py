"""The examples of pipelines, run as their pages say, and what comes out compared with what has to."""

from __future__ import annotations

import datetime
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.orders import generator
from flowmesh.base.limits import KIB
from flowmesh.base.times import to_text
from flowmesh.client import connect_blocking
from flowmesh.testing import NodeProcess
from tests.cli.running import call
from tests.pipelines.runs import Row, files_of, ordered, records_of, send, until, values_of

pytestmark = [pytest.mark.usefixtures("command_line"), pytest.mark.timeout(240)]

EXAMPLES = Path(generator.__file__).parents[1]
ORDERS = 4_000
TOO_LATE = 5


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """The examples name their streams themselves, so the node is theirs."""
    place = tmp_path_factory.mktemp("examples-node") / "data"
    with NodeProcess(place, drain_timeout_s=1, retention_interval_s=0.2) as running:
        yield running


def told(*arguments: object, stdin: bytes = b"") -> str:
    done = call(*arguments, stdin=stdin)
    assert done.exit_code == 0, done.output
    return done.stdout


def run_once(pipeline: str | Path) -> Row:
    """How the run ended, by query."""
    said = told("pipeline", "run", EXAMPLES / pipeline, "--once", "--json")
    ended = json.loads(said.splitlines()[-1])
    assert (ended["event"], ended["state"], ended["error"]) == ("ended", "finished", None)
    return {query["query"]: query for query in ended["queries"]}


@pytest.fixture
def orders_pipeline(tmp_path: Path) -> Path:
    """The file as it is, but that the session of the tests leaves out what closes windows when no rows come."""
    text = (EXAMPLES / "orders" / "pipeline.yaml").read_text()
    (tmp_path / "orders.yaml").write_text(f"{text}\nspark: {{spark.sql.streaming.noDataMicroBatches.enabled: true}}\n")
    return tmp_path / "orders.yaml"


def test_messages_are_cleaned_up_and_what_is_none_is_kept_aside(node: NodeProcess) -> None:
    told("stream", "create", "messages")
    told("stream", "append", "messages", stdin=(EXAMPLES / "cleanup" / "messages.ndjson").read_bytes())
    for queries in (run_once("cleanup/pipeline.yaml"), run_once("cleanup/pipeline.yaml")):
        assert {name: query["lag"] for name, query in queries.items()} == {
            "contacts-stream": 0,
            "messages-dead-letter": 0,
        }
    contacts = [json.loads(line) for line in told("stream", "read", "contacts").splitlines()]
    assert ordered(contacts) == ordered(
        {"name": name, "email": email, "born": born, "from_partition": 0, "from_offset": offset}
        for offset, name, email, born in [
            (0, "Ada Lovelace", "ada@example.org", "1815-12-10"),
            (1, "Grace Hopper", "grace@example.org", "1906-12-09"),
            (2, "Charles Babbage", None, None),
            (7, "Ada Lovelace", "ada@example.org", "1815-12-10"),
        ]
    )
    assert [record.key for record in records_of(node, "contacts") if json.loads(record.value or b"")["email"]] == [
        contact["email"].encode() for contact in contacts if contact["email"]
    ]
    letters = records_of(node, "messages-dead-letters")
    sent = (EXAMPLES / "cleanup" / "messages.ndjson").read_bytes().splitlines()
    places = [int(dict(letter.headers)[b"x-flowmesh-offset"] or b"-1") for letter in letters]
    assert places == [3, 4, 5, 6]
    assert [letter.value for letter in letters] == [sent[place] for place in places]
    reasons = [(dict(letter.headers)[b"x-flowmesh-error"] or b"").decode() for letter in letters]
    assert "22.6.1910" in reasons[0]
    assert "/name" in reasons[1]
    assert "not a JSON object" in reasons[2]
    assert "not a JSON object" in reasons[3]


def test_orders_are_summed_up_by_minute_archived_and_asked_something_new(
    node: NodeProcess, orders_pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("stream", "create", "orders", "--partitions", 2, "--segment-bytes", 64 * KIB)
    monkeypatch.setattr(sys, "argv", ["generator", "--orders", str(ORDERS)])
    assert generator.main() == 0
    _is_summed_up(node, orders_pipeline)
    middle = to_text(time.time_ns())
    send(node, "orders", generator.closing(ORDERS + 1).as_json())
    _goes_on_without_writing_twice(node, orders_pipeline)
    monkeypatch.setenv("FLOWMESH_DATA_DIR", str(node.data_dir))
    monkeypatch.setenv("ARCHIVE", str(tmp_path / "archive"))
    archived = told("archive", "run", "orders", "--to", tmp_path / "archive")
    assert archived.startswith("archived ")
    _forget_what_is_archived(node)
    late_and_closing = [generator.too_late(number) for number in range(TOO_LATE)] + [generator.closing(ORDERS)] * 2
    good = list(generator.good(0, ORDERS, ORDERS))
    _backfilled(monkeypatch, tmp_path / "all", good + late_and_closing)
    monkeypatch.setenv("UNTIL", middle)
    _backfilled(monkeypatch, tmp_path / "until", good + late_and_closing[:-1])
    monkeypatch.setenv("FROM", middle)
    monkeypatch.delenv("UNTIL")
    _backfilled(monkeypatch, tmp_path / "from", late_and_closing[-1:])


def _is_summed_up(node: NodeProcess, pipeline: Path) -> None:
    """All orders, and then some that come when their window is closed."""
    first = run_once(pipeline)
    assert first["revenue-stream"]["rows_in"] == first["orders-dead-letter"]["rows_in"] == ORDERS
    late = [generator.too_late(number).as_json() for number in range(TOO_LATE)]
    send(node, "orders", *late, generator.closing(ORDERS).as_json())
    second = run_once(pipeline)
    assert second["revenue-stream"]["rows_late"] == TOO_LATE
    expected = generator.revenue(generator.good(0, ORDERS, ORDERS))
    assert first["revenue-stream"]["rows_out"] + second["revenue-stream"]["rows_out"] == len(expected)
    computed = values_of(node, "revenue")
    assert {
        (row["window_start"], row["category"]): (round(row["revenue"] * 100), row["orders"]) for row in computed
    } == expected
    letters = records_of(node, "orders-dead-letters")
    assert sorted(letter.value or b"" for letter in letters) == sorted(
        generator.broken(number) for number in range(ORDERS) if generator.is_broken(number)
    )


def _goes_on_without_writing_twice(node: NodeProcess, pipeline: Path) -> None:
    last = run_once(pipeline)
    assert (last["revenue-stream"]["rows_in"], last["revenue-stream"]["rows_out"]) == (1, 0)
    assert len(values_of(node, "revenue")) == len(generator.revenue(generator.good(0, ORDERS, ORDERS)))
    groups = {group["group"]: group for group in json.loads(told("group", "list", "orders", "--json"))["groups"]}
    assert {name: group["lag"] for name, group in groups.items()} == {
        "orders-revenue-revenue-stream": 0,
        "orders-revenue-orders-dead-letter": 0,
    }


def _forget_what_is_archived(node: NodeProcess) -> None:
    told("stream", "alter", "orders", "--retention-bytes", 64 * KIB)
    with connect_blocking(node.url, token=node.token) as client:
        stream = client.stream("orders")
        until(lambda: any(each.start_offset > 0 for each in stream.describe().partitions))


def _backfilled(monkeypatch: pytest.MonkeyPatch, out: Path, orders: list[generator.Order]) -> None:
    monkeypatch.setenv("OUT", str(out))
    (query,) = run_once("backfill/backfill.yaml").values()
    expected: dict[str, list[int]] = {}
    for each in orders:
        expected.setdefault(each.category, []).append(each.cents)
    assert query["rows_out"] == len(expected)
    found: list[dict[str, Any]] = files_of(out)
    assert {row["category"]: (row["day"], row["orders"], row["revenue"], row["largest"]) for row in found} == {
        category: (datetime.date(2026, 1, 1), len(cents), pytest.approx(sum(cents) / 100), max(cents) / 100)
        for category, cents in expected.items()
    }
    assert len(found) == len(expected)
