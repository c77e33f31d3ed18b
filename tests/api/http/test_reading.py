"""Reading: where it begins and ends, what waits, what is refused."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from flowmesh.node import paths
from tests.api.http.conftest import ServedNode, append, make_stream, problem, read

NDJSON = {"accept": "application/x-ndjson"}
ARROW = {"accept": "application/vnd.apache.arrow.stream"}


def filled(client: httpx.Client, name: str) -> str:
    """Thirty records in three blocks, some with headers, keys and nulls."""
    stream = make_stream(client, name)
    for block in range(3):
        records: list[dict[str, Any]] = []
        for number in range(block * 10, block * 10 + 10):
            headers = {"n": str(number)} if number % 3 == 0 else {}
            value = None if number % 7 == 6 else f"v{number}"
            records.append({"value": value, "key": f"k{number}" if number % 2 else None, "headers": headers})
        client.post(f"{stream}/records", json=records).raise_for_status()
    return stream


@pytest.mark.parametrize("offset, limit", [(0, 100), (0, 1), (3, 4), (9, 2), (5, 20), (29, 5), (30, 5), (11, 19)])
def test_a_read_is_cut_to_the_record_in_every_form(client: httpx.Client, offset: int, limit: int) -> None:
    stream = filled(client, "cut")
    everything = read(client, stream, limit=100)
    query = {"offset": offset, "limit": limit}
    page = client.get(f"{stream}/records", params=query).raise_for_status().json()
    expected = everything[offset : offset + limit]
    assert page["records"] == expected
    assert (page["next_offset"], page["start_offset"], page["end_offset"]) == (min(offset + limit, 30), 0, 30)
    lines = client.get(f"{stream}/records", params=query, headers=NDJSON).raise_for_status()
    assert [json.loads(line) for line in lines.content.splitlines()] == expected
    table = pa.ipc.open_stream(client.get(f"{stream}/records", params=query, headers=ARROW).content).read_all()
    assert table["offset"].to_pylist() == [record["offset"] for record in expected]
    texts = [None if value is None else value.decode() for value in table["value"].to_pylist()]
    assert texts == [record["value"] for record in expected]


def test_the_records_are_what_was_sent(client: httpx.Client) -> None:
    stream = filled(client, "sent")
    for number, record in enumerate(read(client, stream, offset=1, limit=25), start=1):
        assert record["offset"] == number
        assert record["value"] == (None if number % 7 == 6 else f"v{number}")
        assert record["key"] == (f"k{number}" if number % 2 else None)
        assert record["headers"] == ({"n": str(number)} if number % 3 == 0 else {})


def test_bytes_max_bounds_an_answer_and_one_record_is_always_given(client: httpx.Client, stream: str) -> None:
    append(client, stream, *["x" * 1000] * 10)
    assert len(read(client, stream, bytes_max=3500)) == 3
    assert len(read(client, stream, bytes_max=1)) == 1
    lines = client.get(f"{stream}/records", params={"bytes_max": 1, "limit": 5}, headers=NDJSON)
    assert len(lines.content.splitlines()) >= 1


def test_reading_from_a_time(client: httpx.Client, stream: str) -> None:
    records = [{"value": str(hour), "time": f"2026-01-01T{hour:02}:00:00Z"} for hour in range(24)]
    client.post(f"{stream}/records", json=records).raise_for_status()
    assert [record["value"] for record in read(client, stream, time="2026-01-01T21:30:00Z")] == ["22", "23"]
    assert read(client, stream, at="latest") == []
    assert len(read(client, stream, at="earliest")) == 24


@pytest.mark.parametrize(
    "query, status, field",
    [
        ({"offset": 31}, 416, "offset"),
        ({"offset": -1}, 416, "offset"),
        ({"offset": 2**70}, 416, "offset"),
        ({"offset": 1, "at": "latest"}, 400, "offset"),
        ({"at": "middle"}, 400, "at"),
        ({"time": "yesterday"}, 400, "time"),
        ({"limit": 0}, 400, "limit"),
        ({"bytes_max": 2**40}, 400, "bytes_max"),
        ({"wait_ms": 60_001}, 400, "wait_ms"),
        ({"partition": 1}, 400, "partition"),
    ],
)
@pytest.mark.parametrize("form", [{}, NDJSON, ARROW], ids=["json", "ndjson", "arrow"])
def test_what_cannot_be_read_is_refused_before_an_answer_begins(
    client: httpx.Client, query: dict[str, Any], status: int, field: str, form: dict[str, str]
) -> None:
    stream = filled(client, "refused")
    found = problem(client.get(f"{stream}/records", params=query, headers=form))
    assert (found["status"], found["field"]) == (status, field)
    if status == 416:
        assert (found["start_offset"], found["end_offset"]) == (0, 30)


def test_a_form_that_is_not_given_is_named(client: httpx.Client, stream: str) -> None:
    assert problem(client.get(f"{stream}/records", headers={"accept": "image/png"}))["status"] == 406
    for accept in ("text/html, */*;q=0.1", "application/*", "application/json;q=0.5, application/x-ndjson;q=0.1"):
        found = client.get(f"{stream}/records", headers={"accept": accept}).raise_for_status()
        assert found.headers["content-type"] == "application/json"


# --- waiting ------------------------------------------------------------------------------------------------------


def test_a_read_at_the_end_waits_for_what_comes(served: ServedNode, client: httpx.Client, stream: str) -> None:
    def later() -> None:
        time.sleep(0.3)
        with served.client() as other:
            append(other, stream, "came")

    sending = threading.Thread(target=later)
    sending.start()
    began = time.monotonic()
    found = read(client, stream, wait_ms=10_000)
    sending.join()
    assert [record["value"] for record in found] == ["came"]
    assert 0.2 < time.monotonic() - began < 5


def test_a_read_that_waits_in_vain_comes_back_empty(client: httpx.Client, stream: str) -> None:
    page = client.get(f"{stream}/records", params={"wait_ms": 50}).raise_for_status().json()
    assert (page["records"], page["next_offset"]) == ([], 0)


def test_a_client_that_leaves_ends_its_wait(served: ServedNode, client: httpx.Client, stream: str) -> None:
    with served.client() as leaving, pytest.raises(httpx.ReadTimeout):
        leaving.get(f"{stream}/records", params={"wait_ms": 60_000}, timeout=0.3)
    key = ("default", "tests", stream.rpartition("/")[2])
    deadline = time.monotonic() + 5
    while served.on_loop(lambda: len(served.running.node.streams[key].partitions[0].on_published)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_node_that_stops_sends_waiting_readers_home(own_node: ServedNode) -> None:
    found: list[Any] = []
    with own_node.client() as client:
        stream = make_stream(client, "stopping")

        def wait() -> None:
            with own_node.client() as waiting:
                found.append(read(waiting, stream, wait_ms=60_000))

        waiter = threading.Thread(target=wait)
        waiter.start()
        time.sleep(0.3)
        began = time.monotonic()
        own_node.stop()
        waiter.join(5)
    assert found == [[]]
    assert time.monotonic() - began < 3


# --- damage -------------------------------------------------------------------------------------------------------


def test_damage_is_named_and_never_served(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    node = ServedNode(directory).start()
    with node.client() as client:
        stream = filled(client, "damaged")
    node.stop()
    place = directory / paths.resource_directory(paths.STREAMS, "default/tests/damaged") / "0" / "segment-000001.log"
    data = bytearray(place.read_bytes())
    data[data.index(b"v14v15") + 1] ^= 1
    place.write_bytes(data)
    node = ServedNode(directory).start()
    try:
        with node.client() as client:
            found = problem(client.get(f"{stream}/records", params={"offset": 12}))
            assert (found["status"], found["code"]) == (500, "CORRUPT_DATA")
            assert "offsets [10, 20)" in found["detail"]
            assert len(read(client, stream, offset=0)) == 10
            assert len(read(client, stream, offset=20)) == 10
            broken = client.get(f"{stream}/records", params={"offset": 15}, headers=NDJSON)
            assert problem(broken)["code"] == "CORRUPT_DATA"
            with pytest.raises(httpx.RemoteProtocolError):  # it ends without its end: nobody can take it for the whole
                client.get(f"{stream}/records", params={"offset": 5, "limit": 100}, headers=NDJSON)
    finally:
        node.stop()
