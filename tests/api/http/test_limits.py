"""What is too much, too long, too slow or too many: refused by name, and the node goes on."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import zstandard

from flowmesh.api.http import bounds
from flowmesh.api.http.bodies import Budget, unfolded
from flowmesh.api.http.record_forms import Rows, require_fit
from flowmesh.base.errors import TooLarge, Unavailable
from flowmesh.base.limits import MIB, RECORD_BYTES_MAX, REQUEST_BYTES_MAX
from tests.api.http.conftest import ServedNode, append, problem, read

RAW = {"content-type": "application/octet-stream"}


class Raw:
    """A socket that speaks just what it is told."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, data: bytes) -> Raw:
        self.socket.sendall(data)
        return self

    def hear(self) -> tuple[int, dict[str, Any]]:
        """The status and the problem that come before the connection is closed."""
        data = b""
        while piece := self.socket.recv(65_536):
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        return int(head.split()[1]) if head else 0, json.loads(body) if body else {}


# --- bodies -------------------------------------------------------------------------------------------------------


def test_a_body_that_says_it_is_too_large_is_refused_unread(client: httpx.Client, stream: str) -> None:
    found = problem(client.post(f"{stream}/records", content=b"x" * (REQUEST_BYTES_MAX + 1), headers=RAW))
    assert (found["status"], found["code"]) == (413, "TOO_LARGE")
    assert str(REQUEST_BYTES_MAX) in found["detail"]
    append(client, stream, "the connection is of use again")


@pytest.mark.parametrize("token, status", [("", 413), ("a.b", 401)])
def test_who_asks_for_the_end_of_the_connection_sees_why_a_body_is_refused(
    served: ServedNode, stream: str, token: str, status: int
) -> None:
    """As `urllib` does: it sends all of the body before it listens, and then waits for the end."""
    size = REQUEST_BYTES_MAX + 1
    with Raw(served.port) as raw:
        raw.say(
            f"POST {stream}/records HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {size}\r\n"
            f"content-type: application/octet-stream\r\nauthorization: Bearer {token or served.token}\r\n\r\n".encode()
        )
        assert raw.say(b"x" * size).hear()[0] == status


def test_a_body_that_was_refused_and_does_not_come_is_not_waited_for(
    served: ServedNode, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowmesh.api.http.connection.BODY_WINDOW_S", 0.2)
    for ending in ("close", "keep-alive"):
        with Raw(served.port) as raw:
            raw.say(
                f"POST {stream}/records HTTP/1.1\r\nhost: x\r\nconnection: {ending}\r\n"
                f"content-length: 1000000\r\n\r\nx".encode()
            )
            time.sleep(0.05)
            with contextlib.suppress(ConnectionResetError):
                raw.say(b"x").hear()


def test_a_body_that_does_not_say_is_refused_once_it_is(client: httpx.Client, stream: str) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(REQUEST_BYTES_MAX // MIB + 2):
            yield b"x" * MIB

    found = problem(client.post(f"{stream}/records", content=endless(), headers=RAW))
    assert found["status"] == 413
    assert read(client, stream) == []


def test_the_largest_record_is_taken_and_one_byte_more_is_not(client: httpx.Client, stream: str) -> None:
    post = f"{stream}/records"
    client.post(post, content=b"x" * RECORD_BYTES_MAX, headers=RAW).raise_for_status()
    found = problem(client.post(post, content=b"x" * RECORD_BYTES_MAX, params={"key": "k"}, headers=RAW))
    assert (found["status"], found["field"]) == (413, "value")
    assert len(read(client, stream, bytes_max=1)[0]["value"]) == RECORD_BYTES_MAX


@pytest.mark.parametrize("many", [False, True])
def test_header_names_and_counts_are_bounded(client: httpx.Client, stream: str, many: bool) -> None:
    for headers in ({"n" * 1025: "x"}, [["a", "b"]] * (bounds.RECORD_HEADERS_MAX + 1)):
        record = {"value": "x", "headers": headers}
        found = problem(client.post(f"{stream}/records", json=[record, record] if many else record))
        assert (found["status"], found["field"]) == (413, "headers")


def test_no_record_is_refused(client: httpx.Client, stream: str) -> None:
    for content, media_type in ((b"[]", "application/json"), (b"\n \n", "application/x-ndjson")):
        found = problem(client.post(f"{stream}/records", content=content, headers={"content-type": media_type}))
        assert (found["status"], found["field"]) == (400, "records")


def test_the_longest_key_and_the_longest_value_may_be_of_two_records() -> None:
    require_fit(Rows([b"v" * RECORD_BYTES_MAX, b""], [None, b"k" * RECORD_BYTES_MAX]))
    with pytest.raises(TooLarge):
        require_fit(Rows([b"", b"v" * RECORD_BYTES_MAX], [None, b"k"]))


def test_too_many_records_are_refused(client: httpx.Client, stream: str) -> None:
    lines = b'{"value":1}\n' * 1_000_001
    headers = {"content-type": "application/x-ndjson", "content-encoding": "gzip"}
    found = problem(client.post(f"{stream}/records", content=gzip.compress(lines, 1), headers=headers))
    assert (found["status"], found["field"]) == (413, "records")


@pytest.mark.parametrize(
    "body, encoding, status",
    [
        (gzip.compress(b"x" * (64 * MIB)), "gzip", 413),
        (zstandard.compress(b"x" * (64 * MIB)), "zstd", 413),
        (gzip.compress(b"x" * 100)[:-9], "gzip", 400),
        (b"not folded", "gzip", 400),
        (b"not folded", "zstd", 400),
        (zstandard.compress(b"x" * 1000)[:-3], "zstd", 400),
        (b"x", "br", 415),
        (b"x", "gzip, gzip", 415),
    ],
    ids=["gzip bomb", "zstd bomb", "gzip torn", "gzip other", "zstd other", "zstd torn", "unknown", "twice"],
)
def test_folded_bodies_that_are_not_taken(
    client: httpx.Client, stream: str, body: bytes, encoding: str, status: int
) -> None:
    found = client.post(f"{stream}/records", content=body, headers={**RAW, "content-encoding": encoding})
    assert problem(found)["status"] == status
    assert read(client, stream) == []


def test_several_folded_members_are_one_body() -> None:
    for fold, name in ((gzip.compress, b"gzip"), (zstandard.compress, b"ZSTD")):
        assert unfolded(fold(b"ab") + fold(b"cd"), name, 4) == b"abcd"


def test_bodies_under_way_share_one_budget() -> None:
    budget = Budget(100)
    budget.take(60)
    with pytest.raises(Unavailable):
        budget.take(41)
    budget.give_back(60)
    budget.take(100)


def test_nothing_of_the_budget_is_lost(served: ServedNode, client: httpx.Client, stream: str) -> None:
    for size, status in ((REQUEST_BYTES_MAX + 1, 413), (200_000, 200)):
        assert client.post(f"{stream}/records", content=iter([b"x" * size]), headers=RAW).status_code == status
    assert served.running.http._application._budget.held == 0


# --- heads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [1, 40])
@pytest.mark.parametrize("where", ["header", "headers", "path", "unfinished"])
def test_a_head_that_is_too_large_is_refused(served: ServedNode, where: str, pieces: int) -> None:
    large = b"x" * bounds.HEAD_BYTES_MAX
    head = {
        "header": b"GET /healthz HTTP/1.1\r\nhost: x\r\nlarge: " + large + b"\r\n\r\n",
        "headers": b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
        "path": b"GET /" + large + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        "unfinished": b"GET /healthz HTTP/1.1\r\nhost: x\r\nlarge: " + large * 9,
    }[where]
    with Raw(served.port) as raw:
        size = len(head) // pieces + 1
        for start in range(0, len(head), size):
            try:
                raw.say(head[start : start + size])
            except OSError:
                break
            time.sleep(0.002 if pieces > 1 else 0)
        try:
            status, body = raw.hear()
        except ConnectionError:  # it was still talking when the answer came
            return
        assert (status, body["code"]) == (431, "TOO_LARGE")


def test_what_is_not_http_is_told_so(served: ServedNode) -> None:
    for data in (
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET \xff HTTP/1.1\r\n\r\n",
    ):
        with Raw(served.port) as raw:
            status, body = raw.say(data).hear()
            assert (status, body["code"]) == (400, "BAD_REQUEST")


def test_two_lengths_are_no_length(served: ServedNode) -> None:
    head = b"POST /v1/tokens HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    with Raw(served.port) as raw:
        assert raw.say(head).hear()[0] == 400


# --- time ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowmesh.api.http.connection.HEAD_TIMEOUT_S", 0.2)
    monkeypatch.setattr("flowmesh.api.http.connection.BODY_WINDOW_S", 0.2)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("begun", [b"", b"\r\n", b"GET /healthz HTTP/1.1\r\nhost:"])
def test_who_does_not_finish_a_head_is_sent_away(served: ServedNode, begun: bytes) -> None:
    with Raw(served.port) as raw:
        began = time.monotonic()
        status, _ = raw.say(begun).hear()
        assert status == (408 if len(begun) > 2 else 0)
        assert time.monotonic() - began < 3


@pytest.mark.usefixtures("impatient")
def test_who_stops_in_the_second_head_is_sent_away(served: ServedNode) -> None:
    whole = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    with Raw(served.port) as raw:
        raw.say(whole)
        assert raw.socket.recv(65_536).startswith(b"HTTP/1.1 200")
        status, _ = raw.say(whole[:10]).hear()
        assert status == 408


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("drip", [False, True])
def test_who_does_not_finish_a_body_is_sent_away(
    served: ServedNode, client: httpx.Client, stream: str, drip: bool
) -> None:
    head = f"POST {stream}/records HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {served.token}\r\n"
    with Raw(served.port) as raw:
        began = time.monotonic()
        raw.say(f"{head}content-type: application/octet-stream\r\ncontent-length: 100000\r\n\r\nabc".encode())
        for _ in range(2 if drip else 0):
            time.sleep(0.08)
            raw.say(b"x")
        status, body = raw.hear()
        assert (status, body["field"]) == (408, "body")
        assert time.monotonic() - began < 3
    assert read(client, stream) == []


def test_connections_beyond_the_limit_are_told_to_come_back(
    own_node: ServedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_node.running.http, "_connections_max", 1)
    with Raw(own_node.port) as first, Raw(own_node.port) as second:
        status, body = second.hear()
        assert (status, body["code"]) == (503, "UNAVAILABLE")
        first.say(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert first.hear() == (200, {"status": "ok"})
