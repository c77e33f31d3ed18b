"""Every operation of the table over frames, and what an operation may not do to its connection."""

from typing import Any

import pytest

from flowmesh.base.errors import ErrorCode
from flowmesh.format import batch, columns
from flowmesh.format.batch import Producer
from flowmesh.format.frame import FrameFlag, FrameKind
from flowmesh.operations.table import OPERATIONS
from tests.api.frames.node_thread import NodeThread
from tests.api.frames.wire import PLACE, Wire, content

TESTED_ELSEWHERE = {"stream.subscribe"}


def wire_batch(values: list[bytes | None], producer: Producer = batch.ANONYMOUS, **options: object) -> bytes:
    made = columns.encode(values, producer=producer, **options)  # type: ignore[arg-type]
    return batch.HEADER.pack(*made.header) + bytes(made.body)


def test_every_operation_answers(wire: Wire) -> None:
    stream = {**PLACE, "name": "every"}
    token = wire.call("token.create", tenant="default", permissions=["stream.read"])
    calls: dict[str, dict[str, Any]] = {
        "node.describe": {},
        "tenant.create": {"tenant": "every"},
        "tenant.list": {},
        "tenant.delete": {"tenant": "every"},
        "token.create": {"tenant": "default", "permissions": ["stream.read"]},
        "token.list": {},
        "token.rotate": {"id": token["id"]},
        "token.revoke": {"id": token["id"]},
        "stream.create": stream,
        "stream.describe": stream,
        "stream.alter": {**stream, "retention_bytes": 10**6},
        "stream.list": PLACE,
        "stream.append": stream,
        "stream.read": stream,
        "stream.find": {**stream, "at": "latest"},
        "stream.split": stream,
        "group.commit": {**stream, "group": "readers", "offsets": {0: 1}},
        "group.describe": {**stream, "group": "readers"},
        "group.list": stream,
        "group.delete": {**stream, "group": "readers"},
        "stream.delete": stream,
    }
    assert set(calls) | TESTED_ELSEWHERE == {operation.name for operation in OPERATIONS}
    for name, fields in calls.items():
        answer = wire.call(name, **fields)
        assert "code" not in answer, (name, answer)


def test_an_unknown_code_a_bad_header_and_an_unwanted_body_are_answers_and_no_more(wire: Wire) -> None:
    wire.send(FrameKind.REQUEST, 250, {})
    assert content(wire.receive())["code"] == ErrorCode.UNKNOWN_COMMAND
    headers: tuple[Any, ...] = ({"tenent": "x"}, {"tenant": 5}, [], None)
    for header in headers:
        wire.send(FrameKind.REQUEST, 2, header)
        assert content(wire.receive())["code"] == ErrorCode.BAD_REQUEST
    assert wire.call("node.describe", b"body")["code"] == ErrorCode.BAD_REQUEST
    assert "id" in wire.call("node.describe")


@pytest.mark.parametrize("name", ["a/b", "..", "A", "", "x" * 65, "%2e", "a\0", "ａ"])
def test_names_that_are_none_are_refused(wire: Wire, name: str) -> None:
    for operation in ("stream.describe", "stream.append", "stream.read", "stream.create", "stream.subscribe"):
        assert wire.call(operation, **PLACE, name=name)["code"] == ErrorCode.BAD_REQUEST


def test_one_record_with_everything_comes_back(wire: Wire) -> None:
    wire.create("whole")
    fields = {**PLACE, "name": "whole", "key": b"k", "headers": [[b"n", b"v"]], "time_ns": 1234}
    appended = wire.call("stream.append", b"value", **fields)
    assert appended["appends"] == [{"partition": 0, "base_offset": 0, "end_offset": 1, "repeated": False}]
    assert appended["durability"] == "batch"
    assert wire.call("stream.append", **PLACE, name="whole", null=True)["appends"][0]["base_offset"] == 1
    records = read_all(wire, "whole")
    assert records[0] == columns.Record(0, 1234, b"k", b"value", ((b"n", b"v"),))
    assert records[1].value is None


def read_all(wire: Wire, name: str, partition: int = 0) -> list[columns.Record]:
    from flowmesh.client.received import received

    records: list[columns.Record] = []
    offset = 0
    while True:
        wire.ask("stream.read", **PLACE, name=name, partition=partition, offset=offset)
        answer = wire.receive()
        for found in received(partition, answer.body, offset, verify=True):
            records += found.records()
        if content(answer)["next_offset"] == offset:
            return records
        offset = content(answer)["next_offset"]


@pytest.mark.parametrize(
    "body, fields",
    [
        (b"", {"time_ns": 2**63 - 1}),
        (b"", {"time_ns": 2**62}),
        (b"", {"headers": [[b"n" * 1025, b""]]}),
        (b"x", {"null": True}),
        (b"x", {"partition": 7}),
        (b"x", {"partition": -1}),
        (b"x", {"key": "text"}),
    ],
)
def test_a_record_that_cannot_be_is_refused_alone(wire: Wire, body: bytes, fields: dict[str, Any]) -> None:
    if wire.call("stream.describe", **PLACE, name="refusing").get("code") == ErrorCode.NOT_FOUND:
        wire.create("refusing")
    before = len(read_all(wire, "refusing"))
    bad = wire.ask("stream.append", body, **PLACE, name="refusing", **fields)
    good = wire.ask("stream.append", b"good", **PLACE, name="refusing")
    answers = {answer.correlation: answer for answer in (wire.receive(), wire.receive())}
    assert answers[bad].kind == FrameKind.ERROR
    assert answers[good].kind == FrameKind.REPLY
    assert len(read_all(wire, "refusing")) == before + 1


def test_batches_are_stored_once_and_in_order(wire: Wire) -> None:
    wire.create("batches")
    place = {**PLACE, "name": "batches", "partition": 0}

    def append(sequence: int, count: int, epoch: int = 0) -> dict[str, object]:
        body = wire_batch([b"%d" % (sequence + row) for row in range(count)], Producer(9, epoch, sequence))
        answer: dict[str, object] = wire.call("stream.append", body, flags=FrameFlag.BATCH, **place)
        return answer

    first, again = append(0, 3), append(0, 3)
    assert first["appends"] == [{"partition": 0, "base_offset": 0, "end_offset": 3, "repeated": False}]
    assert again["appends"] == [{"partition": 0, "base_offset": 0, "end_offset": 3, "repeated": True}]
    assert append(5, 1)["code"] == ErrorCode.OUT_OF_ORDER_SEQUENCE
    assert "appends" in append(3, 2)
    assert "appends" in append(0, 1, epoch=1)
    assert append(5, 1)["code"] == ErrorCode.PRODUCER_FENCED
    assert [record.value for record in read_all(wire, "batches")] == [b"0", b"1", b"2", b"3", b"4", b"0"]


def test_a_batch_that_lies_is_refused(wire: Wire) -> None:
    wire.create("lies")
    sound = wire_batch([b"one", b"two"], times_ns=[5, 9])
    lies = [
        b"",
        sound[:63],
        sound[:-1],
        sound + b"x",
        b"\x02" + sound[1:],
        sound[:1] + b"\x01" + sound[2:],
        sound[:1] + b"\x02" + sound[2:],
        sound[:2] + b"\x01" + sound[3:],
        sound[:4] + b"\xff\xff\xff\xff" + sound[8:],
        sound[:24] + bytes(8) + sound[32:],
        sound[:80] + b"\xff\xff\xff\x7f" + sound[84:],
    ]
    for body in lies:
        answer = wire.call("stream.append", body, flags=FrameFlag.BATCH, **PLACE, name="lies")
        assert answer["code"] in (ErrorCode.BAD_REQUEST, ErrorCode.UNSUPPORTED_VERSION), body
    answer = wire.call("stream.append", sound, flags=FrameFlag.BATCH, **PLACE, name="lies", key=b"k")
    assert answer["code"] == ErrorCode.BAD_REQUEST
    assert read_all(wire, "lies") == []


def test_a_compressed_batch_is_stored_as_it_came_and_a_bomb_is_not(wire: Wire) -> None:
    wire.create("zstd")
    body = wire_batch([b"same" * 100] * 1000, codec=batch.Codec.ZSTD)
    assert len(body) < 10_000
    assert "appends" in wire.call("stream.append", body, flags=FrameFlag.BATCH, **PLACE, name="zstd")
    assert len(read_all(wire, "zstd")) == 1000
    bomb = wire_batch([bytes(15_000_000)] * 3, codec=batch.Codec.ZSTD)
    assert wire.call("stream.append", bomb, flags=FrameFlag.BATCH, **PLACE, name="zstd")["code"] == ErrorCode.TOO_LARGE


def test_reading_by_place_time_and_limit(wire: Wire) -> None:
    wire.create("reading")
    for number in range(5):
        assert "appends" in wire.call("stream.append", b"%d" % number, **PLACE, name="reading", time_ns=100 * number)
    place = {**PLACE, "name": "reading"}
    for fields, offset in (
        ({"at": "earliest"}, 1),
        ({}, 1),
        ({"at": "latest"}, 5),
        ({"time": "150"}, 3),
        ({"offset": 4}, 5),
    ):
        wire.ask("stream.read", **place, **fields, limit=1)
        told = content(wire.receive())
        segments = told.pop("segments", [])
        assert told == {"next_offset": offset, "start_offset": 0, "end_offset": 5}, fields
        if fields == {"at": "latest"}:
            assert segments == []
        else:
            ((first, segment),) = segments
            assert (first, len(segment)) == (offset - 1, 16), fields
    for bad in ({"limit": 0}, {"bytes_max": 0}, {"bytes_max": 2**40}, {"wait_ms": -1}, {"wait_ms": 10**6}, {"at": "x"}):
        assert wire.call("stream.read", **place, **bad)["code"] == ErrorCode.BAD_REQUEST
    gone = wire.call("stream.read", **place, offset=6)
    assert gone["code"] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (gone["offset"], gone["start_offset"], gone["end_offset"]) == (6, 0, 5)
    assert wire.call("stream.find", **place, time="301")["offset"] == 4


def test_a_long_poll_is_woken_by_an_append_and_ended_by_cancel_or_deletion(node: NodeThread, wire: Wire) -> None:
    wire.create("polled")
    place = {**PLACE, "name": "polled"}
    waiting = wire.ask("stream.read", **place, wait_ms=30_000)
    with Wire(node.port, node.token) as other:
        other.call("stream.append", b"x", **place)
        answer = wire.receive()
        assert (answer.correlation, content(answer)["next_offset"]) == (waiting, 1)
        cancelled = wire.ask("stream.read", **place, offset=1, wait_ms=30_000)
        wire.call("node.describe")
        wire.send(FrameKind.CANCEL, 0, number=cancelled)
        answer = wire.receive()
        assert (answer.kind, answer.correlation, answer.header) == (FrameKind.END, cancelled, b"")
        wire.ask("stream.read", **place, offset=1, wait_ms=30_000)
        assert other.call("stream.delete", **place) == {}
        assert content(wire.receive())["code"] == ErrorCode.NOT_FOUND
    assert content_of_empty_poll(wire) == 0


def content_of_empty_poll(wire: Wire) -> int:
    wire.create("silent")
    wire.ask("stream.read", **PLACE, name="silent", wait_ms=20)
    answer = wire.receive()
    assert len(answer.body) == 0
    return int(content(answer)["next_offset"])
