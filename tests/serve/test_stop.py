"""How a node ends, in order or not, and what the next start finds."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.serve.nodes import PATIENCE_S, Served, serving

STREAM = "/v1/default/default/streams/orders"


def append(node: Served, *values: str, stream: str = STREAM) -> dict[str, Any]:
    status, reply = node.ask("POST", f"{stream}/records", [{"value": value} for value in values])
    assert status in (200, 201), reply
    assert isinstance(reply, dict)
    return reply


def read(node: Served, stream: str = STREAM) -> list[str]:
    status, page = node.ask("GET", f"{stream}/records?at=earliest&limit=1000")
    assert status == 200, page
    return [record["value"] for record in page["records"]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_long_poll_and_then_the_node(data: Path, number: int) -> None:
    with serving(data) as node:
        assert node.ask("PUT", STREAM, {})[0] in (200, 201)
        answers: list[tuple[int, Any]] = []

        def poll() -> None:
            answers.append(node.ask("GET", f"{STREAM}/records?at=latest&wait_ms=60000"))

        waiting = threading.Thread(target=poll)
        waiting.start()
        time.sleep(0.5)  # for the request to be under way; the test holds without
        began = time.monotonic()
        assert node.stop(number) == 0
        waiting.join(PATIENCE_S)
        assert time.monotonic() - began < 10, "it did not wait for the poll's minute to be over"
        assert answers[0][0] in (200, 503)
        assert "everything acknowledged is on the disk" in node.log.read_text(encoding="utf-8")


def test_a_restart_keeps_streams_records_and_tokens(data: Path) -> None:
    with serving(data) as node:
        node.ask("PUT", STREAM, {"partitions": 1, "durability": "always"})
        assert append(node, "one", "two")["durability"] == "always"
        _, made = node.ask("POST", "/v1/tokens", {"tenant": "default", "permissions": ["stream.read"]})
        first = node.facts["node"]
        assert node.stop() == 0
    with serving(data) as node:
        assert node.facts["node"] == first
        assert read(node) == ["one", "two"]
        assert node.ask("GET", STREAM, token=made["token"])[0] == 200
        assert node.ask("DELETE", STREAM, token=made["token"])[0] == 403


@pytest.mark.parametrize("durability", ["batch", "interval:1000"])
def test_what_was_acknowledged_is_there_after_a_kill(data: Path, durability: str) -> None:
    with serving(data) as node:
        node.ask("PUT", STREAM, {"durability": durability})
        for number in range(20):
            assert append(node, str(number))["durability"] == durability
        assert node.stop(signal.SIGKILL) == -signal.SIGKILL
    with serving(data) as node:
        assert read(node) == [str(number) for number in range(20)]


def test_readers_of_an_interval_stream_are_woken_when_it_is_synced(data: Path) -> None:
    with serving(data) as node:
        node.ask("PUT", STREAM, {"durability": "interval:200"})
        append(node, "x")
        began = time.monotonic()
        status, page = node.ask("GET", f"{STREAM}/records?at=earliest&wait_ms=20000")
        assert (status, [record["value"] for record in page["records"]]) == (200, ["x"])
        assert time.monotonic() - began < 10


def test_a_second_signal_ends_at_once_and_loses_nothing(data: Path) -> None:
    with serving(data) as node:
        node.ask("PUT", STREAM, {})
        append(node, "kept")
        # Both are waiting when the process goes on, so that it cannot be done with the first before the second comes.
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT):
            node.process.send_signal(number)
        assert node.stop(signal.SIGCONT) in (128 + signal.SIGTERM, 128 + signal.SIGINT)
        assert "everything acknowledged" not in node.log.read_text(encoding="utf-8")
    with serving(data) as node:
        assert read(node) == ["kept"]


def test_a_deleted_streams_name_can_be_used_again(data: Path) -> None:
    with serving(data) as node:
        _, first = node.ask("PUT", STREAM, {})
        append(node, "old")
        used = sum(1 for _ in node.data_dir.rglob("*"))
        assert node.ask("DELETE", STREAM)[0] in (200, 204)
        assert sum(1 for _ in node.data_dir.rglob("*")) < used
        _, second = node.ask("PUT", STREAM, {})
        assert second["id"] != first["id"]
        assert read(node) == []


PLANTED = """
from flowmesh.cli.main import main
from flowmesh.host.writer import WriterThread

def broken(self, waiting):
    raise RuntimeError("planted")

WriterThread._commit = broken
main()
"""


def test_a_fault_in_the_writer_ends_the_node_instead_of_leaving_callers_waiting(data: Path) -> None:
    with serving(data) as node:
        node.ask("PUT", STREAM, {})
        append(node, "kept")
        assert node.stop() == 0
    with serving(data, program=("-c", PLANTED)) as node:
        with pytest.raises(ConnectionError):
            append(node, "lost")
        assert node.process.wait(PATIENCE_S) == 70
        last = json.loads(node.log.read_text(encoding="utf-8").splitlines()[-1])
        assert (last["level"], "planted" in last["exception"]) == ("critical", True)
    with serving(data) as node:
        assert read(node) == ["kept"]
