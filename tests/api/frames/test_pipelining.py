"""Many requests at once: order, merged replies, several connections, and what is bounded while they are under way."""

import struct
from typing import Any

import msgspec
import pytest

from flowmesh.base import limits
from flowmesh.base.errors import ErrorCode
from flowmesh.format import frame
from flowmesh.format.batch import Codec
from flowmesh.format.frame import FrameFlag, FrameKind
from tests.api.frames.node_thread import NodeThread
from tests.api.frames.test_operations import read_all, wire_batch
from tests.api.frames.wire import PLACE, Wire, content

APPEND = 21


def appends(header: dict[str, Any], first: int, count: int, flags: int = 0) -> bytes:
    data = msgspec.msgpack.encode(header)
    return b"".join(
        frame.encode(FrameKind.REQUEST, APPEND, first + row, data, struct.pack("<I", row), flags=flags)
        for row in range(count)
    )


def offsets(wire: Wire, first: int, count: int) -> dict[int, tuple[int, int]]:
    """Partition and offset for each correlation id, from single and merged replies alike."""
    found: dict[int, tuple[int, int]] = {}
    while len(found) < count:
        answer = wire.receive()
        assert answer.kind == FrameKind.REPLY, content(answer)
        (item,) = content(answer)["appends"]
        if not answer.flags & FrameFlag.MERGE:
            assert item["end_offset"] == item["base_offset"] + 1
        for row, offset in enumerate(range(item["base_offset"], item["end_offset"])):
            assert answer.correlation + row not in found
            found[answer.correlation + row] = (item["partition"], offset)
    assert set(found) == set(range(first, first + count))
    return found


@pytest.mark.parametrize("flags", [0, FrameFlag.MERGE])
@pytest.mark.parametrize("count", [1, 7, 15, 16, 3000])
@pytest.mark.parametrize("durability", ["batch", "interval:50"])
def test_pipelined_records_are_stored_in_order_and_answered_each(
    wire: Wire, count: int, flags: int, durability: str
) -> None:
    name = f"order-{count}-{int(flags)}-{durability[0]}"
    wire.create(name, durability=durability)
    wire.socket.sendall(appends({**PLACE, "name": name}, 100, count, flags))
    found = offsets(wire, 100, count)
    assert [found[100 + row][1] for row in range(count)] == list(range(count))
    if durability != "batch":
        wire.ask("stream.read", **PLACE, name=name, wait_ms=5000)
        assert wire.receive().kind == FrameKind.REPLY
    values = [record.value for record in read_all(wire, name)]
    assert values == [struct.pack("<I", row) for row in range(len(values))]


def test_with_fsync_for_each_append_nothing_is_merged(wire: Wire) -> None:
    wire.create("always", durability="always")
    wire.socket.sendall(appends({**PLACE, "name": "always"}, 100, 20))
    offsets(wire, 100, 20)
    wire.ask("stream.read", **PLACE, name="always")
    assert len(wire.receive().body) > 20 * 100


def test_mixed_appends_of_one_connection_keep_their_order(wire: Wire) -> None:
    """Runs, keyed records, small and large batches and compressed ones: all to one partition, one behind the other."""
    wire.create("mixed")
    place = {**PLACE, "name": "mixed"}
    data, expected, number = [], [], 500
    for turn in range(6):
        data.append(appends(place, number, 40))
        expected += [struct.pack("<I", row) for row in range(40)]
        number += 40
        keyed = msgspec.msgpack.encode({**place, "key": b"k"})
        data.append(frame.encode(FrameKind.REQUEST, APPEND, number, keyed, b"keyed %d" % turn))
        expected.append(b"keyed %d" % turn)
        large: list[bytes | None] = [b"%d" % turn * 700_000]
        zstd = wire_batch([b"z"] * 10, codec=Codec.ZSTD)
        for extra, body in enumerate((wire_batch(large), zstd), 1):
            header = msgspec.msgpack.encode(place)
            data.append(frame.encode(FrameKind.REQUEST, APPEND, number + extra, header, body, flags=FrameFlag.BATCH))
        expected += [*large, *[b"z"] * 10]  # type: ignore[list-item]
        number += 3
    wire.socket.sendall(b"".join(data))
    for _ in range(6 * 43):
        assert wire.receive().kind == FrameKind.REPLY
    assert [record.value for record in read_all(wire, "mixed")] == expected


def test_keys_find_their_partition_and_runs_take_turns(wire: Wire) -> None:
    wire.create("spread", partitions=3)
    for key, partition in ((b"1", None), (b"1", None), (b"x", 2)):
        fields = {} if partition is None else {"partition": partition}
        (item,) = wire.call("stream.append", b"v", **PLACE, name="spread", key=key, **fields)["appends"]
        assert partition in (None, item["partition"])
    wire.socket.sendall(appends({**PLACE, "name": "spread"}, 50, 100, FrameFlag.MERGE))
    offsets(wire, 50, 100)
    turns = set()
    for _ in range(3):
        turns.add(wire.call("stream.append", b"", **PLACE, name="spread")["appends"][0]["partition"])
    assert turns == {0, 1, 2}


def test_records_of_many_connections_share_rounds_and_lose_nothing(node: NodeThread) -> None:
    wires = [Wire(node.port, node.token) for _ in range(20)]
    wires[0].create("shared")
    for wire in wires:
        wire.socket.sendall(appends({**PLACE, "name": "shared"}, 100, 50))
    found = [offsets(wire, 100, 50) for wire in wires]
    taken = sorted(offset for each in found for _, offset in each.values())
    assert taken == list(range(1000))
    for each in found:
        assert [each[number][1] for number in sorted(each)] == sorted(offset for _, offset in each.values())
    for wire in wires:
        wire.socket.close()


def test_a_run_to_a_stream_that_is_not_there_is_answered_each(wire: Wire) -> None:
    wire.socket.sendall(appends({**PLACE, "name": "nowhere"}, 100, 30, FrameFlag.MERGE))
    answers = [wire.receive() for _ in range(30)]
    assert [answer.correlation for answer in answers] == list(range(100, 130))
    assert {content(answer)["code"] for answer in answers} == {ErrorCode.NOT_FOUND}


def test_an_append_after_delete_and_create_goes_to_the_new_stream(wire: Wire) -> None:
    for _ in range(3):
        wire.create("again")
        wire.socket.sendall(appends({**PLACE, "name": "again"}, 1000, 20, FrameFlag.MERGE))
        assert offsets(wire, 1000, 20)[1000] == (0, 0)
        assert wire.call("stream.delete", **PLACE, name="again") == {}
        assert wire.call("stream.append", b"", **PLACE, name="again")["code"] == ErrorCode.NOT_FOUND


def test_a_client_that_writes_without_reading_is_held_back_and_loses_nothing(node: NodeThread, wire: Wire) -> None:
    """More requests than may be under way, more replies than may wait: the node stops reading until there is room."""
    wire.create("flood")
    count = 4 * limits.IN_FLIGHT_PER_CONNECTION_MAX
    data = appends({**PLACE, "name": "flood"}, 1000, count)
    wire.socket.setblocking(False)
    sent = 0
    for _ in range(200):
        try:
            sent += wire.socket.send(data[sent : sent + 100_000])
        except BlockingIOError:
            break
    wire.socket.settimeout(20)
    connections = node.on_loop(lambda: list(node.running.frames.context.connections))
    assert all(found.in_flight < 2 * limits.IN_FLIGHT_PER_CONNECTION_MAX for found in connections)
    position = sent
    found: dict[int, int] = {}
    wire.socket.settimeout(20)
    while len(found) < count:
        if position < len(data):
            wire.socket.sendall(data[position : position + 200_000])
            position += 200_000
        answer = wire.receive()
        found[answer.correlation] = content(answer)["appends"][0]["base_offset"]
    assert [found[1000 + row] for row in range(count)] == list(range(count))
