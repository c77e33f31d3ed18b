"""The client's administration and its handles on streams, over a real node; errors are the node's own types."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

import flowmesh
from flowmesh.base import errors
from flowmesh.client import Client
from flowmesh.client.address import parse_address
from flowmesh.client.direct import DirectConnection
from flowmesh.format import frame
from flowmesh.format.frame import FrameDecoder, FrameKind
from flowmesh.operations.frames import Welcome, error_header
from flowmesh.operations.messages import ReadRecords
from flowmesh.testing import NodeProcess


def with_client(node: NodeProcess, work: Callable[[Client], Awaitable[None]], **options: float) -> None:
    async def run() -> None:
        async with flowmesh.connect(node.url, token=node.token, timeout_s=options.get("timeout_s", 30.0)) as client:
            await work(client)

    asyncio.run(run())


def test_streams_from_their_making_to_their_end(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await client.create_stream("life", partitions=2, retention_bytes=10**9)
        assert "life" in await client.list_streams()
        altered = await stream.alter(retention_bytes=None, durability="always")
        assert (altered.retention_bytes, altered.durability) == (None, "always")
        assert len((await stream.describe()).partitions) == 2
        with pytest.raises(errors.AlreadyExists):
            await client.create_stream("life")
        with pytest.raises(errors.BadRequest):
            await stream.alter(partitions=4)
        await stream.delete()
        with pytest.raises(errors.NotFound, match="default/default/life"):
            await stream.describe()

    with_client(node, work)


def test_records_go_in_and_come_out(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await client.create_stream("default/default/records")
        placed = await stream.append(b"one", key=b"k", headers=[(b"n", b"v")], time_ns=77)
        assert (placed.partition, placed.base_offset, placed.end_offset) == (0, 0, 1)
        await stream.append(None)
        await stream.append_many([b"a", None, b"c"], keys=[b"x", None, b"z"], compress=True)
        (batch, *more) = await stream.read(0)
        assert batch.records()[0] == (0, 77, b"k", b"one", ((b"n", b"v"),))
        values = [value for found in (batch, *more) for value in found.values()]
        assert values == [b"one", None, b"a", None, b"c"]
        assert [found.values() for found in await stream.read(3)] == [[None, b"c"]]
        assert await stream.read(at="latest") == []
        assert (await stream.find(time="78")).offset == 1
        with pytest.raises(errors.OffsetOutOfRange) as caught:
            await stream.read(99)
        assert (caught.value.offset, caught.value.end_offset) == (99, 5)

    with_client(node, work)


def test_tenants_and_tokens(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        await client.create_tenant("acme")
        assert "acme" in [tenant.tenant for tenant in await client.list_tenants()]
        made = await client.create_token(tenant="acme", permissions=["stream.read"], description="reader")
        rotated = await client.rotate_token(made.id, overlap_s=60)
        assert {made.id, rotated.id} <= {token.id for token in await client.list_tokens("acme")}
        async with flowmesh.connect(node.url, token=rotated.token) as reader:
            assert await reader.list_streams(tenant="acme") == []
            with pytest.raises(errors.Forbidden):
                await reader.create_stream("acme/default/no")
            with pytest.raises(errors.NotFound):
                await reader.stream("default/default/records").describe()
            await client.revoke_token(rotated.id)
            with pytest.raises(errors.Unauthenticated):
                await reader.list_streams(tenant="acme")
        with pytest.raises(errors.Unauthenticated):
            await flowmesh.connect(node.url, token=rotated.token)
        await client.revoke_token(made.id)
        await client.delete_tenant("acme")
        assert (await client.describe_node()).version == flowmesh.__version__

    with_client(node, work)


def test_what_cannot_be_reached_is_said_in_time() -> None:
    async def run() -> None:
        with pytest.raises(errors.Unavailable, match="nothing was sent"):
            await flowmesh.connect("flowmesh://127.0.0.1:1", token="a.b", timeout_s=0.3)

    asyncio.run(run())


def test_the_port_of_http_is_told_from_that_of_frames(node: NodeProcess) -> None:
    url = node.http_url.replace("http", "flowmesh")

    async def run() -> None:
        with pytest.raises(errors.BadRequest, match="speaks HTTP"):
            await flowmesh.connect(url, token=node.token)

    asyncio.run(run())
    with pytest.raises(errors.BadRequest, match="speaks HTTP"):
        DirectConnection(parse_address(url), node.token)


def test_a_token_may_bring_the_end_of_its_line_along(node: NodeProcess) -> None:
    async def run() -> None:
        async with flowmesh.connect(node.url, token=node.token + "\n") as client:
            await client.describe_node()

    asyncio.run(run())


@pytest.mark.parametrize("wrong", ["text", 7, {"a": 1}])
def test_what_is_not_bytes_is_refused_with_what_to_do(node: NodeProcess, wrong: Any) -> None:
    async def work(client: Client) -> None:
        stream = client.stream("bytes")
        if "bytes" not in await client.list_streams():
            await client.create_stream("bytes")
        for attempt in (stream.append(wrong), stream.append(b"", key=wrong), stream.append_many([b"", wrong])):
            with pytest.raises(errors.BadRequest, match=r"is bytes, not .* Encode it first"):
                await attempt
        for headers in ({"trace": "a1"}, [("trace", "a1")], "trace", [b"trace"], 7):
            with pytest.raises(errors.BadRequest, match="pairs of bytes"):
                await stream.append(b"", headers=cast(Any, headers))
        async with await stream.producer() as producer:
            with pytest.raises(errors.BadRequest, match="Encode it first"):
                await producer.send(wrong)
            await producer.send(b"this goes on")
        assert (await stream.describe()).partitions[0].end_offset > 0

    with_client(node, work)


def test_a_node_that_accepts_and_says_nothing_is_not_waited_for() -> None:
    async def run() -> None:
        async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.transport.abort()
            ended.set()

        ended = asyncio.Event()

        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(errors.Unavailable):
            await flowmesh.connect(f"flowmesh://127.0.0.1:{port}", token="a.b", timeout_s=0.3)
        await ended.wait()
        server.close()

    asyncio.run(run())


def test_a_long_poll_that_outlasts_its_time_is_timed_out(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await client.create_stream("slow")
        read = ReadRecords("default", "default", "slow", wait_ms=5_000)
        with pytest.raises(errors.TimedOut, match="unknown"):
            await client._session.call("stream.read", read, timeout_s=0.2)
        assert await stream.read(0, wait_ms=10) == []

    with_client(node, work)


def test_a_node_that_was_too_busy_for_a_hello_is_asked_again() -> None:
    """Nothing was asked on that connection yet, so there is nothing whose outcome could be unknown."""
    late = frame.encode(FrameKind.ERROR, 0, 0, error_header(errors.TimedOut("no hello came in time.")))
    welcome = msgspec.msgpack.encode(Welcome("n", "v", 1, 1000, 10, 60_000))
    served = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        (hello,) = FrameDecoder().feed(await reader.read(10_000))
        writer.write(late if len(served) == 1 else frame.encode(FrameKind.REPLY, 0, hello.correlation, welcome))
        await reader.read()
        writer.close()
        await writer.wait_closed()

    async def run() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as busy:
            port = busy.sockets[0].getsockname()[1]
            async with flowmesh.connect(f"flowmesh://127.0.0.1:{port}", token="a.b"):
                assert len(served) == 2
            await asyncio.gather(*(task for task in served if task is not None))

    asyncio.run(run())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://localhost",
        "flowmesh://",
        "flowmesh://h:x",
        "flowmesh://h:99999",
        "flowmesh://h/x",
        "flowmesh://u@h",
        "h",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(errors.BadRequest):
        parse_address(url)


def test_addresses_have_a_default_port_and_tls_is_asked_for_by_name(tmp_path: Path) -> None:
    assert str(parse_address("flowmesh://localhost")) == "flowmesh://localhost:7401"
    assert str(parse_address("flowmesh://[::1]:9")) == "flowmesh://[::1]:9"
    assert isinstance(parse_address("flowmeshs://localhost").tls, ssl.SSLContext)
    with pytest.raises(errors.BadRequest):
        parse_address("flowmesh://localhost", ca_file=tmp_path)


def test_importing_the_package_loads_no_client() -> None:
    import subprocess
    import sys

    code = "import sys, flowmesh; flowmesh.__version__; assert not {'asyncio', 'msgspec'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError):
        _ = flowmesh.nothing
