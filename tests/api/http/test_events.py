"""Server-sent events: records as they come, resumed where a client left, ended with a reason."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from flowmesh.api.http import bounds
from tests.api.http.conftest import ServedNode, append, make_stream, problem

EVENTS = {"accept": "text/event-stream"}


def events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if not line and fields:
            yield {**fields, "data": json.loads(fields["data"])} if "data" in fields else fields
            fields = {}
        elif line and not line.startswith(":"):
            name, _, content = line.partition(": ")
            fields[name] = content


def records(response: httpx.Response, count: int) -> list[tuple[str, Any]]:
    found = []
    for event in events(response):
        if "id" in event:
            found.append((event["id"], event["data"]["value"]))
            if len(found) == count:
                break
    return found


def test_what_is_there_and_what_comes_is_pushed(served: ServedNode, client: httpx.Client, stream: str) -> None:
    append(client, stream, "a", "b")
    with served.client() as other, other.stream("GET", f"{stream}/records", headers=EVENTS) as response:
        assert response.headers["content-type"] == "text/event-stream"
        append(client, stream, "c")
        assert records(response, 3) == [("0", "a"), ("1", "b"), ("2", "c")]


def test_events_begin_with_what_comes_next(served: ServedNode, client: httpx.Client, stream: str) -> None:
    append(client, stream, "before")
    with served.client() as other, other.stream("GET", f"{stream}/events", params={"window": 1}) as response:
        append(client, stream, "after", "after that")
        assert records(response, 2) == [("1", "after"), ("2", "after that")]


def test_a_client_that_comes_back_goes_on_after_what_it_saw(client: httpx.Client, stream: str) -> None:
    append(client, stream, *"abcdef")
    query = {"offset": 1, "limit": 2}
    with client.stream("GET", f"{stream}/records", params=query, headers=EVENTS) as response:
        seen = records(response, 3)
    assert seen == [("1", "b"), ("2", "c")]
    again = {**EVENTS, "last-event-id": seen[-1][0]}
    with client.stream("GET", f"{stream}/records", params=query, headers=again) as response:
        assert records(response, 3) == [("3", "d"), ("4", "e")]


@pytest.mark.parametrize(
    "path, query, headers, field",
    [
        ("records", {"wait_ms": 1}, {}, "wait_ms"),
        ("records", {"limit": 0}, {}, "limit"),
        ("records", {"offset": 9}, {}, "offset"),
        ("records", {}, {"last-event-id": "x"}, "last-event-id"),
        ("records", {}, {"last-event-id": "10"}, "offset"),
        ("events", {"window": 0}, {}, "window"),
        ("events", {"limit": 5}, {}, "limit"),
    ],
)
def test_what_cannot_be_followed_is_a_problem_and_no_event(
    client: httpx.Client, stream: str, path: str, query: dict[str, Any], headers: dict[str, str], field: str
) -> None:
    found = client.get(f"{stream}/{path}", params=query, headers={**EVENTS, **headers})
    assert problem(found)["field"] == field


def test_silence_is_broken_by_heartbeats(served: ServedNode, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served.running.http._application._follower, "_heartbeat_ms", 50)
    with served.client() as client, client.stream("GET", f"{stream}/events") as response:
        lines = response.iter_lines()
        assert [next(lines) for _ in range(5)] == ["retry: 1000", "", ": nothing new", "", ": nothing new"]


@pytest.mark.parametrize("ending", ["revoked", "deleted"])
def test_the_stream_ends_with_a_reason(
    served: ServedNode, client: httpx.Client, stream: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.running.http._application._follower, "_heartbeat_ms", 50)
    made = client.post("/v1/tokens", json={"tenant": "default", "permissions": ["stream.read"]}).json()
    with served.client(made["token"]) as other, other.stream("GET", f"{stream}/events") as response:
        if ending == "revoked":
            client.delete(f"/v1/tokens/{made['id']}")
        else:
            client.delete(stream)
        last = list(events(response))[-1]
    assert last["event"] == "problem"
    assert last["data"]["code"] == {"revoked": "UNAUTHENTICATED", "deleted": "NOT_FOUND"}[ending]


def test_a_node_that_stops_says_so(own_node: ServedNode) -> None:
    with own_node.client() as client:
        stream = make_stream(client, "stopping")
        with client.stream("GET", f"{stream}/events") as response:
            threading.Timer(0.2, own_node.begin_to_stop).start()
            last = list(events(response))[-1]
    assert last["data"]["code"] == "UNAVAILABLE"


def test_a_client_that_does_not_read_is_dropped_and_costs_little(
    served: ServedNode, client: httpx.Client, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowmesh.api.http.connection.STALL_TIMEOUT_S", 0.5)
    append(client, stream, *["x" * 100_000] * 300)
    before = served.observer.connected
    with socket.create_connection(("127.0.0.1", served.port)) as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        head = f"GET {stream}/records HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {served.token}\r\n"
        silent.sendall(f"{head}accept: text/event-stream\r\n\r\n".encode())
        deadline = time.monotonic() + 10
        while served.observer.connected == before:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        buffered = []
        while served.observer.connected > before:
            assert time.monotonic() < deadline
            state = served.running.http._state
            buffered += [sum(each.transport.get_write_buffer_size() for each in list(state.connections))]
            time.sleep(0.01)
    assert max(buffered) < 4 * bounds.PIECE_BYTES
    append(client, stream, "others are served")
