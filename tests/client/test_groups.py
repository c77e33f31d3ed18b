"""Groups and splits in the client; consumers that go on where their group has come to, and lose nothing on the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import flowmesh
from flowmesh.base import errors
from flowmesh.client import Client
from flowmesh.client.stream_handle import StreamHandle
from flowmesh.operations.messages import GroupDescription
from flowmesh.testing import NodeProcess
from tests.client.proxy import CuttingProxy
from tests.client.test_client import with_client
from tests.client.test_consumer import filled


def offsets_of(group: GroupDescription) -> dict[int, int]:
    return {position.partition: position.offset for position in group.partitions}


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await holds():
            await asyncio.sleep(0.02)


async def taken(stream: StreamHandle, count: int, group: str, **options: object) -> list[bytes | None]:
    """The values of so many records of a consumer that then goes away in an orderly way."""
    values: list[bytes | None] = []
    async with stream.consumer("earliest", group=group, **options) as found:  # type: ignore[arg-type]
        async for record in found:
            values.append(record.value)
            if len(values) == count:
                break
    return values


def test_a_group_is_committed_described_listed_and_deleted(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await filled(client, "managed", 20, partitions=2)
        made = await stream.commit_group("cold", {0: 4}, kind="archive", hold_s=600, location="s3://cold")
        assert (made.group, made.kind, made.hold_s, made.location, made.lag) == ("cold", "archive", 600, "s3://cold", 6)
        assert offsets_of(await stream.commit_group("cold", {1: 1})) == {0: 4, 1: 1}
        found = await stream.group("cold")
        assert (found.hold_s, found.lag) == (None, 15)
        assert [group.group for group in await stream.groups()] == ["cold"]
        with pytest.raises(errors.BadRequest) as refused:
            await stream.commit_group("cold", {0: 11})
        assert refused.value.field == "offsets"
        await stream.delete_group("cold")
        with pytest.raises(errors.NotFound):
            await stream.group("cold")

    with_client(node, work)


def test_a_range_is_split(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await client.create_stream("split")
        for _ in range(6):
            await stream.append_many([b"x" * 50_000] * 2)
        found = await stream.splits(0, 3, 11, split_bytes=65_536)
        assert len(found.splits) > 2
        assert (found.splits[0].base_offset, found.splits[-1].end_offset, found.end_offset) == (3, 11, 12)

    with_client(node, work)


def test_a_consumer_goes_on_where_its_group_has_come_to(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await filled(client, "going", 30)
        assert await taken(stream, 15, "a") == [b"%d" % row for row in range(15)]
        assert offsets_of(await stream.group("a")) == {0: 10}, "a batch that was begun comes again"
        assert await taken(stream, 20, "a", until_end=True) == [b"%d" % row for row in range(10, 30)]
        assert await taken(stream, 10, "b") == [b"%d" % row for row in range(10)], "each group has its own"

    with_client(node, work)


def test_what_was_read_to_the_end_is_committed_when_the_consumer_is_closed(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await filled(client, "ended", 30, partitions=3)
        async with stream.consumer("earliest", group="a", until_end=True) as found:
            assert len([record async for record in found]) == 30
        group = await stream.group("a")
        assert (offsets_of(group), group.lag) == ({0: 10, 1: 10, 2: 10}, 0)

    with_client(node, work)


def test_latest_is_one_place_from_the_first_opening_on(node: NodeProcess) -> None:
    """A consumer that ends before its first commit would else skip what came while it was away."""

    async def work(client: Client) -> None:
        stream = await filled(client, "pinned", 10)
        found = stream.consumer(group="a")
        await found.open()
        assert offsets_of(await stream.group("a")) == {0: 10}
        await found.close()
        await stream.append(b"meanwhile")
        assert await taken(stream, 1, "a") == [b"meanwhile"]

    with_client(node, work)


def test_positions_are_committed_while_it_runs_and_holds_are_kept_alive(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await filled(client, "running", 10)
        async with stream.consumer("earliest", group="a", hold_s=1, commit_interval_s=0.02) as found:
            batches = found.batches()
            await anext(batches)
            following = asyncio.ensure_future(anext(batches))

            async def has_come_to(offset: int) -> bool:
                return offsets_of(await stream.group("a")) == {0: offset}

            await until(lambda: has_come_to(10))
            first = await stream.group("a")
            assert first.hold_s == 1

            async def renewed() -> bool:
                return (await stream.group("a")).updated > first.updated

            await until(renewed)
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following

    with_client(node, work)


def test_a_process_that_dies_makes_some_records_come_again_and_none_go_missing(node: NodeProcess) -> None:
    """Again and again a client vanishes without a word; the next one goes on for the group."""

    async def run() -> None:
        seen: list[int] = []
        async with flowmesh.connect(node.url, token=node.token) as owner:
            stream = await filled(owner, "dying", 400)
            begin, lives = 0, 0
            while begin < 400:
                lives += 1
                async with flowmesh.connect(node.url, token=node.token) as client:
                    found = client.stream("dying").consumer(
                        "earliest", group="a", until_end=True, commit_interval_s=0.005
                    )
                    taken = 0
                    async for batch in found.batches():
                        seen += [int(value or b"") for value in batch.values()]
                        taken += 1
                        if taken == 6:
                            break

                    async def has_moved(since: int = begin) -> bool:
                        return offsets_of(await stream.group("a"))[0] > since

                    await until(has_moved)
                    # Left as it is: the client's end takes its connections away, and nothing more is committed.
                begin = offsets_of(await stream.group("a"))[0]
        assert lives > 5
        assert sorted(set(seen)) == list(range(400))
        assert len(seen) > 400, "what was not committed came again"

    asyncio.run(run())


def test_commits_survive_cut_connections(node: NodeProcess) -> None:
    async def run() -> None:
        async with (
            flowmesh.connect(node.url, token=node.token) as owner,
            CuttingProxy(int(node.url.rpartition(":")[2])) as proxy,
            flowmesh.connect(proxy.url, token=node.token) as client,
        ):
            stream = await filled(owner, "cut-commits", 200)
            through = client.stream("cut-commits")
            async with through.consumer("earliest", group="a", until_end=True, commit_interval_s=0.005) as found:
                async for batch in found.batches():
                    if batch.base_offset % 40 == 0:
                        proxy.cut()
                        await asyncio.sleep(0.02)
            assert (await stream.group("a")).lag == 0

    asyncio.run(run())


def test_a_consumer_that_cannot_commit_says_so(node: NodeProcess) -> None:
    async def work(client: Client) -> None:
        stream = await filled(client, "refusing", 10)
        with pytest.raises(errors.BadRequest) as refused:
            await stream.consumer(group="No Name").open()
        assert refused.value.field == "group"
        for options in ({"hold_s": 5}, {"group": "a", "commit_interval_s": 0}):
            with pytest.raises(errors.BadRequest):
                stream.consumer(**options)
        async with stream.consumer("earliest", group="a", hold_s=1, commit_interval_s=0.02) as found:
            batches = found.batches()
            await anext(batches)
            await stream.delete()
            with pytest.raises(errors.NotFound):
                await anext(batches)

    with_client(node, work)


def test_the_blocking_face_has_all_of_it(node: NodeProcess) -> None:
    with flowmesh.connect_blocking(node.url, token=node.token) as client:
        stream = client.create_stream("blocking-groups")
        stream.append_many([b"one", b"two"])
        with stream.consumer("earliest", group="a", until_end=True) as consumer:
            assert [record.value for record in consumer] == [b"one", b"two"]
        assert offsets_of(stream.group("a")) == {0: 2}
        assert stream.commit_group("a", {0: 1}).lag == 1
        assert [group.group for group in stream.groups()] == ["a"]
        stream.delete_group("a")
        assert stream.groups() == []
        assert [(piece.base_offset, piece.end_offset) for piece in stream.splits().splits] == [(0, 2)]


def test_no_acknowledged_position_is_lost_when_the_node_is_killed(tmp_path: Path) -> None:
    """Several groups commit as fast as they can, and the node gets SIGKILL in the middle, again and again."""

    async def life(node: NodeProcess, acknowledged: dict[str, int], asked: dict[str, int]) -> None:
        async def commit(stream: StreamHandle, name: str) -> None:
            while True:
                asked[name] += 1
                await stream.commit_group(name, {0: asked[name] % 1000, 1: asked[name] // 1000}, hold_s=3600)
                acknowledged[name] = asked[name]

        async with flowmesh.connect(node.url, token=node.token) as client:
            stream = client.stream("killed")
            for group in await stream.groups():
                at = offsets_of(group)
                found = at[0] + 1000 * at[1]
                assert acknowledged[group.group] <= found <= asked[group.group]
                assert group.holding
                asked[group.group] = acknowledged[group.group] = found
            committing = [asyncio.create_task(commit(stream, name)) for name in asked]
            goal = {name: number + 20 for name, number in asked.items()}
            while any(acknowledged[name] < number for name, number in goal.items()):
                assert not any(task.done() for task in committing)
                await asyncio.sleep(0.005)
            node.kill()
            for task in committing:
                task.cancel()
            await asyncio.gather(*committing, return_exceptions=True)

    with NodeProcess(tmp_path / "data") as node:
        with flowmesh.connect_blocking(node.url, token=node.token) as client:
            stream = client.create_stream("killed", partitions=2)
            for partition in (0, 1):
                stream.append_many([b""] * 1000, partition=partition)
        acknowledged = dict.fromkeys(["a", "b", "c"], 0)
        asked = dict(acknowledged)
        for _ in range(4):
            asyncio.run(life(node, acknowledged, asked))
            node.start()
        assert min(acknowledged.values()) >= 80
