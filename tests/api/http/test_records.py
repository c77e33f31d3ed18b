"""Records through the wire and back: every form, byte for byte."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pyarrow as pa
import pytest
import zstandard

from flowmesh.streams.partitioner import partition_of
from tests.api.http.conftest import append, make_stream, problem, read

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"


def send(client: httpx.Client, stream: str, content: bytes, media_type: str, **query: Any) -> httpx.Response:
    return client.post(f"{stream}/records", content=content, headers={"content-type": media_type}, params=query)


@pytest.mark.parametrize(
    "sent, read_back",
    [
        ("text", "text"),
        ("", ""),
        (None, None),
        ("\u0000 ünï \U0001f600", "\u0000 ünï \U0001f600"),
        ({"a": [1, 2.5, None]}, '{"a":[1,2.5,null]}'),
        ([1, 2], "[1,2]"),
        (12, "12"),
        (True, "true"),
        ({"base64": "/wA="}, {"base64": "/wA="}),
        ({"base64": "aGk="}, "hi"),
        ({"base64": "aGk=", "more": 1}, '{"base64":"aGk=","more":1}'),
    ],
)
@pytest.mark.parametrize("many", [False, True])
def test_json_values(client: httpx.Client, stream: str, sent: Any, read_back: Any, many: bool) -> None:
    record = {"value": sent, "key": "k", "headers": {"trace": "1"}, "time": "2026-01-31T12:00:00.000000001Z"}
    reply = client.post(f"{stream}/records", json=[record, record] if many else record).raise_for_status().json()
    count = 2 if many else 1
    appended = {"partition": 0, "base_offset": 0, "end_offset": count, "repeated": False}
    assert reply == {"appends": [appended], "durability": "batch"}
    found = read(client, stream)
    assert len(found) == count
    assert found[-1] == {
        "id": f"{stream.removeprefix('/v1/').replace('/streams/', '/')}/0/{count - 1}",
        "type": "STREAM",
        "partition": 0,
        "offset": count - 1,
        "time": "2026-01-31T12:00:00.000000001Z",
        "key": "k",
        "value": read_back,
        "headers": {"trace": "1"},
        "schema_version": 0,
    }


def test_headers_that_no_object_can_hold_are_pairs(client: httpx.Client, stream: str) -> None:
    pairs = [["a", "1"], ["a", {"base64": "/w=="}]]
    client.post(f"{stream}/records", json={"value": "x", "headers": pairs}).raise_for_status()
    assert read(client, stream)[0]["headers"] == pairs


def test_json_that_spaces_were_taken_out_of(client: httpx.Client, stream: str) -> None:
    send(client, stream, b' { "value" : { "a" : 1 } } ', "application/json; charset=utf-8").raise_for_status()
    assert read(client, stream)[0]["value"] == '{"a":1}'


def test_ndjson_round_trip_by_what_was_read(client: httpx.Client) -> None:
    source, target = make_stream(client, "ndjson-source"), make_stream(client, "ndjson-target")
    lines = "".join(json.dumps({"value": f"v{n}", "key": f"k{n % 7}"}) + "\n" for n in range(25_000))
    send(client, source, lines.encode(), NDJSON).raise_for_status()
    send(client, source, b'\n{"value":{"b":1},"headers":{"h":"1"}}\n\n{"value":"last"}', NDJSON).raise_for_status()
    everything = {"limit": 1_000_000}
    found = client.get(f"{source}/records", params=everything, headers={"accept": NDJSON}).raise_for_status()
    records = [json.loads(line) for line in found.content.splitlines()]
    assert [record["offset"] for record in records] == list(range(25_002))
    assert (records[7]["value"], records[-2]["value"], records[-1]["value"]) == ("v7", '{"b":1}', "last")
    send(client, target, found.content, NDJSON).raise_for_status()
    again = client.get(f"{target}/records", params=everything, headers={"accept": NDJSON}).content
    fields = ("value", "key", "headers", "time")
    assert [[json.loads(line)[name] for name in fields] for line in again.splitlines()] == [
        [record[name] for name in fields] for record in records
    ]


def test_a_raw_body_is_one_value(client: httpx.Client, stream: str) -> None:
    body = bytes(range(256))
    send(client, stream, body, "application/octet-stream", key="ké").raise_for_status()
    send(client, stream, b"", "application/octet-stream").raise_for_status()
    first, second = read(client, stream)
    assert (first["key"], second["key"], second["value"]) == ("ké", None, "")
    table = pa.ipc.open_stream(client.get(f"{stream}/records", headers={"accept": ARROW}).content).read_all()
    assert table["value"].to_pylist() == [body, b""]


def test_arrow_round_trip(client: httpx.Client, stream: str) -> None:
    times = pa.array([1_700_000_000_000_000_001, 1_700_000_000_000_000_002, None], pa.timestamp("ns", "UTC"))
    headers = pa.array([[("a", b"1"), ("a", b"\xff")], [], None], pa.map_(pa.string(), pa.binary()))
    table = pa.table(
        {
            "value": pa.array([b"\x00\xff", None, b"c"], pa.large_binary()),
            "key": pa.array(["k", None, "ü"]),
            "timestamp": times,
            "headers": headers,
        }
    )
    send(client, stream, written(table.slice(0, 2), table.slice(2)), ARROW).raise_for_status()
    answer = client.get(f"{stream}/records", headers={"accept": ARROW}).raise_for_status()
    assert answer.headers["flowmesh-end-offset"] == "3"
    found = pa.ipc.open_stream(answer.content).read_all()
    assert found["offset"].to_pylist() == [0, 1, 2]
    assert found["value"].to_pylist() == [b"\x00\xff", None, b"c"]
    assert found["key"].to_pylist() == [b"k", None, "ü".encode()]
    assert found["headers"].to_pylist() == [[(b"a", b"1"), (b"a", b"\xff")], [], []]
    assert found["timestamp"].cast(pa.int64()).to_pylist()[:2] == [1_700_000_000_000_000_001, 1_700_000_000_000_000_002]
    send(client, stream, answer.content, ARROW).raise_for_status()
    assert len(read(client, stream)) == 6


def written(*tables: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tables[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for table in tables:
            writer.write_table(table)
    return bytes(sink.getvalue())


VALUES = pa.table({"value": [b"x" * 1000] * 100})


@pytest.mark.parametrize(
    "body, field",
    [
        (b"", "body"),
        (b"no arrow", "body"),
        (written(VALUES)[:-200], "body"),
        (written(VALUES, compression="zstd"), "body"),
        (written(VALUES.rename_columns(["worth"])), "value"),
        (written(pa.table({"value": [1, 2]})), "value"),
        (written(pa.table({"value": [b"x"], "color": [b"red"]})), "color"),
        (written(pa.table({"value": pa.array([b"x", b"x"]).dictionary_encode()})), "body"),
        (written(pa.table({"value": [b"x"], "timestamp": pa.array([2**62], pa.timestamp("s"))})), "timestamp"),
    ],
    ids=["empty", "other", "torn", "compressed", "no value", "numbers", "column", "dictionary", "time"],
)
def test_arrow_that_is_not_taken(client: httpx.Client, stream: str, body: bytes, field: str) -> None:
    found = problem(send(client, stream, body, ARROW))
    assert (found["status"], found["field"]) == (400, field)


@pytest.mark.parametrize("fold, name", [(gzip.compress, "gzip"), (zstandard.compress, "zstd")])
def test_folded_bodies(client: httpx.Client, stream: str, fold: Any, name: str) -> None:
    lines = b'{"value":"x"}\n' * 10_000
    headers = {"content-type": NDJSON, "content-encoding": name}
    client.post(f"{stream}/records", content=fold(lines), headers=headers).raise_for_status()
    assert len(read(client, stream)) == 10_000


# --- partitions ---------------------------------------------------------------------------------------------------


def test_keys_say_where_and_the_keyless_of_one_request_stay_together(client: httpx.Client) -> None:
    stream = make_stream(client, "spread", partitions=4)
    records = [{"value": str(number), "key": f"k{number % 20}"} for number in range(40)]
    records += [{"value": "none"} for _ in range(9)]
    reply = client.post(f"{stream}/records", json=records).raise_for_status().json()
    assert [done["partition"] for done in reply["appends"]] == [0, 1, 2, 3]
    found = {number: read(client, stream, partition=number) for number in range(4)}
    for number, there in found.items():
        assert all(partition_of(record["key"].encode(), 4) == number for record in there if record["key"])
        keyed = [int(record["value"]) for record in there if record["key"]]
        assert keyed == sorted(keyed)
    assert sorted(sum(record["key"] is None for record in there) for there in found.values()) == [0, 0, 0, 9]


def test_single_records_without_a_key_take_turns(client: httpx.Client) -> None:
    stream = make_stream(client, "turns", partitions=3)
    replies = [client.post(f"{stream}/records", json={"value": "x"}).json() for _ in range(6)]
    turns = [reply["appends"][0]["partition"] for reply in replies]
    assert sorted(turns) == [0, 0, 1, 1, 2, 2]


def test_an_explicit_partition_wins_over_the_key(client: httpx.Client) -> None:
    stream = make_stream(client, "explicit", partitions=3)
    records = [{"value": "x", "key": f"k{n}"} for n in range(8)]
    for number in (0, 2):
        reply = client.post(f"{stream}/records", params={"partition": number}, json=records).json()
        assert [done["partition"] for done in reply["appends"]] == [number]
    for number in (3, -1):
        refused = client.post(f"{stream}/records", params={"partition": number}, json=records)
        assert problem(refused)["field"] == "partition"


# --- producers ----------------------------------------------------------------------------------------------------


def test_a_numbered_request_is_stored_once(client: httpx.Client, stream: str) -> None:
    first = {"partition": 0, "producer_id": 77, "first_sequence": 0}
    replies = [
        client.post(f"{stream}/records", params=first, json=[{"value": "a"}, {"value": "b"}]).json()["appends"][0]
        for _ in range(2)
    ]
    assert [reply["repeated"] for reply in replies] == [False, True]
    assert replies[0]["base_offset"] == replies[1]["base_offset"]
    gap = client.post(f"{stream}/records", params={**first, "first_sequence": 5}, json={"value": "c"})
    assert problem(gap)["code"] == "OUT_OF_ORDER_SEQUENCE"
    newer = {**first, "producer_epoch": 1}
    client.post(f"{stream}/records", params=newer, json={"value": "c"}).raise_for_status()
    late = client.post(f"{stream}/records", params={**first, "first_sequence": 2}, json={"value": "d"})
    assert problem(late)["code"] == "PRODUCER_FENCED"
    assert [record["value"] for record in read(client, stream)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "query",
    [
        {"producer_id": 1},
        {"producer_id": 1, "first_sequence": 0},
        {"first_sequence": 0, "partition": 0},
        {"producer_id": 0, "first_sequence": 0, "partition": 0},
        {"producer_id": 2**64, "first_sequence": 0, "partition": 0},
        {"producer_id": 1, "first_sequence": -1, "partition": 0},
        {"producer_id": 1, "first_sequence": 0, "partition": 0, "producer_epoch": 2**32},
    ],
)
def test_half_a_number_is_refused(client: httpx.Client, stream: str, query: dict[str, int]) -> None:
    assert problem(client.post(f"{stream}/records", params=query, json={"value": "x"}))["status"] == 400
    assert append(client, stream, "the node goes on")["appends"]
