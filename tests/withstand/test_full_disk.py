"""A node whose disk fills up and empties again: refused on both wires, read all the while, healed without a restart."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

import flowmesh
from flowmesh.base.errors import DiskFull
from flowmesh.base.limits import KIB, MIB
from flowmesh.client.stream_handle import StreamHandle
from flowmesh.testing import NodeProcess

DISK = 24 * MIB
RESERVE = 2 * MIB
ROUNDS = 3
APPENDS_MAX = 400
"""More than the disk holds, so that one that never fills up ends the test."""
URL = "/v1/default/default/streams/tight"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0700", "flowmesh-test", str(place)]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


class Tight:
    """A stream on a node that runs out of space, and every value that was acknowledged, in order."""

    def __init__(self, disk: Path, client: flowmesh.Client, http: httpx.AsyncClient, stream: StreamHandle) -> None:
        self.filler = disk / "filler"
        self.client = client
        self.http = http
        self.stream = stream
        self.acknowledged: list[bytes] = []

    def value(self) -> bytes:
        return b"%08d" % len(self.acknowledged) * (10 * KIB)

    async def post(self) -> int:
        value = self.value()
        answer = await self.http.post(f"{URL}/records", json={"value": value.decode()})
        if answer.status_code == 200:
            self.acknowledged.append(value)
        else:
            assert answer.json()["code"] == "DISK_FULL", answer.text
        return answer.status_code

    async def append(self, *, many: bool) -> bool:
        value = self.value()
        try:
            await (self.stream.append_many([value]) if many else self.stream.append(value))
        except DiskFull:
            return False
        self.acknowledged.append(value)
        return True

    async def fill(self) -> None:
        for turn in range(APPENDS_MAX):
            stored = [await self.append(many=turn % 2 > 0), await self.post() == 200]
            if stored == [False, False]:
                return
        raise AssertionError("the disk never became full")

    async def require_refused(self) -> None:
        assert not await self.append(many=False)
        assert not await self.append(many=True)
        assert await self.post() == 507

    async def require_no_new_stream(self) -> None:
        with pytest.raises(DiskFull):
            await self.client.create_stream("one-more")
        refused = await self.http.put("/v1/default/default/streams/one-more", json={})
        assert (refused.status_code, refused.json()["code"]) == (507, "DISK_FULL")

    async def require_readable(self) -> None:
        """Everything acknowledged, over both wires, and that the node says of itself."""
        async with self.stream.consumer("earliest", until_end=True, verify=True) as consumer:
            assert [record.value async for record in consumer] == self.acknowledged
        for offset in range(0, len(self.acknowledged), 7):
            page = await self.http.get(f"{URL}/records", params={"offset": offset, "limit": 1})
            assert page.json()["records"][0]["value"].encode() == self.acknowledged[offset]
        assert (await self.client.describe_node()).disk_free_bytes <= RESERVE + 512 * KIB
        assert (await self.http.get("/metrics")).status_code == 200
        assert (await self.http.get("/readyz")).status_code == 200

    def take_the_rest(self) -> None:
        """Somebody else takes what is left, down to the last byte."""
        with suppress(OSError), self.filler.open("ab", buffering=0) as file:
            while file.write(bytes(4 * KIB)):
                pass
        with suppress(OSError), self.filler.open("ab", buffering=0) as file:
            while file.write(b"x"):
                pass


async def fill_and_heal(disk: Path, node: NodeProcess) -> None:
    headers = {"authorization": f"Bearer {node.token}"}
    async with (
        flowmesh.connect(node.url, token=node.token) as client,
        httpx.AsyncClient(base_url=node.http_url, headers=headers, timeout=60, trust_env=False) as http,
    ):
        stream = await client.create_stream("tight", segment_bytes=256 * KIB)
        tight, pid = Tight(disk, client, http, stream), node.pid
        tight.filler.write_bytes(bytes(12 * MIB))
        for round_number in range(ROUNDS):
            await tight.fill()
            await tight.require_refused()
            await tight.require_readable()
            async with await stream.producer(linger_ms=0) as producer:
                waiting = tight.value()
                receipt = await producer.send(waiting)
                if round_number % 2 == 0:
                    tight.take_the_rest()
                    await tight.require_refused()
                    await tight.require_no_new_stream()
                    await tight.require_readable()
                assert not receipt.done(), "a producer waits for space, and says nothing before it has it"
                os.truncate(tight.filler, (8 - 4 * round_number) * MIB)
                placed = await receipt
            assert placed.base_offset == len(tight.acknowledged)
            tight.acknowledged.append(waiting)
            assert await tight.append(many=False)
            assert await tight.append(many=True)
            assert await tight.post() == 200
            assert node.running
            assert node.pid == pid
        tight.filler.unlink()
        await asyncio.to_thread(node.restart)
        async with stream.consumer("earliest", until_end=True, verify=True) as consumer:
            assert [record.value async for record in consumer] == tight.acknowledged


def test_a_disk_that_is_full_refuses_on_both_wires_and_heals(small_disk: Path) -> None:
    with NodeProcess(small_disk / "data", disk_reserve_bytes=RESERVE) as node:
        asyncio.run(fill_and_heal(small_disk, node))
        assert "Traceback" not in node.log_file.read_text()
