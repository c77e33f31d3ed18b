"""Groups and splits over frames: what HTTP does, in the other spelling; commits that come together share an fsync."""

from __future__ import annotations

from flowmesh.base.errors import ErrorCode
from flowmesh.base.limits import SPLIT_BYTES_MIN
from flowmesh.format.frame import FrameKind
from tests.api.frames.node_thread import NodeThread
from tests.api.frames.wire import PLACE, Wire, content


def test_a_group_is_committed_described_listed_and_deleted(wire: Wire) -> None:
    place = {**PLACE, "name": "positions"}
    wire.create("positions", partitions=2)
    for _ in range(3):
        wire.call("stream.append", b"x", **place, partition=1)
    made = wire.call("group.commit", **place, group="spark-1", offsets={1: 1}, kind="spark", hold_s=60)
    assert (made["kind"], made["hold_s"], made["lag"]) == ("spark", 60, 2)
    assert made["partitions"] == [{"partition": 1, "offset": 1, "end_offset": 3, "lag": 2, "start_offset": 0}]
    found = wire.call("group.describe", **place, group="spark-1")
    assert {**found, "hold_expires": None} == {**made, "hold_expires": None}
    assert [group["group"] for group in wire.call("group.list", **place)["groups"]] == ["spark-1"]
    assert wire.call("group.delete", **place, group="spark-1") == {}
    assert wire.call("group.describe", **place, group="spark-1")["code"] == ErrorCode.NOT_FOUND


def test_what_cannot_be_committed_is_named(wire: Wire) -> None:
    wire.create("picky")
    place = {**PLACE, "name": "picky", "group": "g"}
    for fields, field in (
        ({"offsets": {1: 0}}, "offsets"),
        ({"offsets": {0: 1}}, "offsets"),
        ({"hold_s": 0}, "hold_s"),
    ):
        refused = wire.call("group.commit", **{**place, **fields})
        assert (refused["code"], refused["field"]) == (ErrorCode.BAD_REQUEST, field)
    assert wire.call("group.commit", **{**place, "offsets": {"0": 1}})["code"] == ErrorCode.BAD_REQUEST


def test_commits_that_are_pipelined_are_all_answered_and_in_effect(node: NodeThread, wire: Wire) -> None:
    wire.create("pipelined")
    place = {**PLACE, "name": "pipelined"}
    for _ in range(10):
        wire.call("stream.append", b"x", **place)
    asked = {
        wire.ask("group.commit", **place, group=f"g{number % 5}", offsets={0: number % 11}) for number in range(200)
    }
    answers = [wire.receive() for _ in asked]
    assert {answer.correlation for answer in answers} == asked
    assert {answer.kind for answer in answers} == {FrameKind.REPLY}
    assert {content(answer)["group"] for answer in answers} == {f"g{number}" for number in range(5)}
    offsets = {group["group"]: group["partitions"][0]["offset"] for group in wire.call("group.list", **place)["groups"]}
    assert offsets == {f"g{number}": (195 + number) % 11 for number in range(5)}


def test_a_range_is_cut_into_pieces(wire: Wire) -> None:
    wire.create("cut")
    place = {**PLACE, "name": "cut"}
    for _ in range(12):
        wire.call("stream.append", b"x" * 40_000, **place)
    found = wire.call("stream.split", **place, split_bytes=SPLIT_BYTES_MIN)
    assert (found["start_offset"], found["end_offset"]) == (0, 12)
    pieces = [(piece["base_offset"], piece["end_offset"]) for piece in found["splits"]]
    assert len(pieces) > 3
    assert [row for begin, end in pieces for row in range(begin, end)] == list(range(12))
    assert wire.call("stream.split", **place, offset=13)["code"] == ErrorCode.OFFSET_OUT_OF_RANGE
