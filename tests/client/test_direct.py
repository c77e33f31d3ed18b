"""The blocking connection against a real node: pipelining, errors in their place, losses that are told as losses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from flowmesh.base import errors
from flowmesh.client.address import NodeAddress, parse_address
from flowmesh.client.direct import DirectConnection
from flowmesh.client.link import LinkLost
from flowmesh.client.outbox import wire_form
from flowmesh.client.received import received
from flowmesh.format import columns, frame
from flowmesh.format.frame import FrameFlag, FrameKind
from flowmesh.operations import messages
from flowmesh.operations.frames import BlocksRead, SingleAppend
from flowmesh.operations.messages import AppendReceipt, AppendRecords, ReadRecords, StreamDescription
from flowmesh.testing import NodeProcess


@contextmanager
def connected(node: NodeProcess, stream: str | None = None) -> Iterator[DirectConnection]:
    with DirectConnection(parse_address(node.url), node.token) as connection:
        if stream is not None:
            connection.request("stream.create", messages.CreateStream(*place(stream)), StreamDescription)
        yield connection


def place(name: str) -> tuple[str, str, str]:
    return ("default", "default", name)


def test_appends_are_pipelined_and_read_back(node: NodeProcess) -> None:
    with connected(node, "direct") as connection:
        request = AppendRecords(*place("direct"), partition=0)
        bodies = [wire_form(columns.encode([b"%d-%d" % (batch, row) for row in range(50)])) for batch in range(8)]
        numbers = [connection.send("stream.append", request, body, flags=FrameFlag.BATCH) for body in bodies]
        assert connection.in_flight == 8
        receipts = [msgspec.msgpack.decode(connection.receive(number).header, type=AppendReceipt) for number in numbers]
        assert [receipt.appends[0].base_offset for receipt in receipts] == [50 * batch for batch in range(8)]
        assert connection.in_flight == 0
        answer = connection.receive(connection.send("stream.read", ReadRecords(*place("direct"), offset=0)))
        found = [record.value for batch in received(0, answer.body, 0) for record in batch.records()]
        assert found == [b"%d-%d" % (batch, row) for batch in range(8) for row in range(50)]


def test_answers_may_be_taken_in_any_order(node: NodeProcess) -> None:
    with connected(node, "any-order") as connection:
        connection.request("stream.append", SingleAppend(*place("any-order")), AppendReceipt, body=bytes(200_000))
        waits = connection.send("stream.read", ReadRecords(*place("any-order"), offset=1, wait_ms=200))
        large = connection.send("stream.read", ReadRecords(*place("any-order"), offset=0))
        missing = connection.send("stream.describe", messages.DescribeStream(*place("nowhere")))
        with pytest.raises(errors.NotFound):
            connection.receive(missing)
        assert not connection.receive(waits).body
        answer = connection.receive(large)
        assert msgspec.msgpack.decode(answer.header, type=BlocksRead).next_offset == 1
        assert len(answer.body) > 200_000


def test_a_wrong_token_is_refused_by_name(node: NodeProcess) -> None:
    with pytest.raises(errors.Unauthenticated):
        DirectConnection(parse_address(node.url), "wrong.token")


def test_a_node_that_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(errors.Unavailable, match="cannot be reached"):
        DirectConnection(NodeAddress("127.0.0.1", port), "a.b")


def test_a_killed_node_is_a_lost_connection(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node, connected(node, "short-lived") as connection:
        number = connection.send("stream.read", ReadRecords(*place("short-lived"), offset=0, wait_ms=30_000))
        node.kill()
        with pytest.raises(LinkLost):
            connection.receive(number)
        assert isinstance(connection.failure, LinkLost)
        with pytest.raises(LinkLost):
            connection.request("stream.describe", messages.DescribeStream(*place("short-lived")), StreamDescription)
        node.start()


def test_a_node_that_stops_says_so(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node, connected(node) as connection:
        node.stop()
        with pytest.raises((errors.Unavailable, LinkLost)):
            connection.request("node.describe", messages.DescribeNode(), messages.NodeDescription)
        node.start()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="closed at once"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="another protocol"),
        pytest.param(frame.encode_head(FrameKind.REPLY, 0, 2, b"", 2**30), id="a size over the limit"),
        pytest.param(frame.encode_head(FrameKind.REPLY, 0, 2, b"", 1000) + bytes(10), id="cut in its body"),
    ],
)
def test_what_is_no_answer_ends_the_connection(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(65_536)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(errors.FlowMeshError):
            DirectConnection(NodeAddress("127.0.0.1", server.getsockname()[1]), "a.b", timeout_s=10)
        thread.join()


def test_a_node_that_says_nothing_is_given_up(node: NodeProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(LinkLost, match="timed out"):
        DirectConnection(NodeAddress("127.0.0.1", server.getsockname()[1]), "a.b", timeout_s=0.2)
