"""Health, readiness, metrics and the page to read: who may see them, and what a browser is told."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import time

import httpx
import pytest

from flowmesh.base.errors import ErrorCode
from flowmesh.operations.table import OPERATIONS
from tests.api.http.conftest import ServedNode, make_stream, problem


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs"])
def test_pages_that_everybody_may_see(served: ServedNode, path: str) -> None:
    with served.client("") as nobody:
        found = nobody.get(path).raise_for_status()
        assert found.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in found.headers
        assert nobody.head(path).raise_for_status().content == b""
        assert problem(nobody.post(path))["status"] == 405


def test_metrics_need_a_token_that_may_read_the_node(served: ServedNode, client: httpx.Client) -> None:
    found = client.get("/metrics").raise_for_status()
    assert (found.text, found.headers["content-type"]) == ("flowmesh_up 1\n", "text/plain; version=0.0.4")
    with served.client("") as nobody:
        assert problem(nobody.get("/metrics"))["status"] == 401
    made = client.post("/v1/tokens", json={"tenant": "default", "permissions": ["stream.read"]}).json()
    with served.client(made["token"]) as other:
        assert problem(other.get("/metrics"))["status"] == 403


def test_the_page_lists_every_operation_and_every_error(client: httpx.Client) -> None:
    text = client.get("/docs").text
    for operation in OPERATIONS:
        assert f"id={operation.name}>" in text
        assert operation.summary in text
    for code in ErrorCode:
        assert f"<tr id={code.value}>" in text


def test_the_page_fetches_nothing_and_runs_nothing(client: httpx.Client) -> None:
    found = client.get("/docs")
    policy = found.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    (style,) = re.findall(r"<style>(.*?)</style>", found.text, re.DOTALL)
    assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in policy
    assert "<script" not in found.text
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", found.text)


def test_a_node_that_is_stopping_is_alive_and_not_ready(own_node: ServedNode) -> None:
    with own_node.client() as client:
        own_node.on_loop(own_node.running.service.drain)
        assert client.get("/healthz").status_code == 200
        found = client.get("/readyz")
        assert (problem(found)["status"], found.headers["retry-after"]) == (503, "1")
        assert problem(client.put("/v1/default/tests/streams/late"))["code"] == "UNAVAILABLE"


def test_a_node_that_stops_answers_what_it_took_and_takes_no_more(own_node: ServedNode) -> None:
    statuses: list[int] = []
    stopped = threading.Event()

    def work() -> None:
        with own_node.client() as client:
            try:
                while not stopped.is_set():
                    statuses.append(client.post(f"{stream}/records", json={"value": "x"}).status_code)
            except httpx.TransportError:
                pass

    with own_node.client() as client:
        stream = make_stream(client, "drained")
    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    time.sleep(0.5)
    began = time.monotonic()
    own_node.stop()
    assert time.monotonic() - began < 4
    stopped.set()
    for worker in workers:
        worker.join(5)
    assert statuses.count(200) > 10
    assert set(statuses) <= {200, 503}
    with pytest.raises(httpx.ConnectError), own_node.client() as client:
        client.get("/healthz")
