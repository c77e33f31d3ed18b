"""A running node in a thread of its own, reached through its HTTP socket: what all tests of this folder talk to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import uvloop

from flowmesh.host.settings import Settings
from flowmesh.serve import RunningNode

T = TypeVar("T")
BASE = "/v1/default/tests/streams"


@dataclass
class Noted:
    """What the wires told their observer."""

    operations: list[tuple[str, str, str]] = field(default_factory=list)
    connected: int = 0

    def operation(self, name: str, wire: str, duration_s: float, outcome: str) -> None:
        assert duration_s >= 0
        self.operations.append((name, wire, outcome))

    def connections(self, wire: str, change: int) -> None:
        assert wire == "http"
        self.connected += change

    def render(self) -> tuple[bytes, str]:
        return b"flowmesh_up 1\n", "text/plain; version=0.0.4"


class ServedNode:
    def __init__(self, directory: Path, **settings: Any) -> None:
        self.observer = Noted()
        self.settings = Settings(
            data_dir=str(directory), http_port=0, frames_port=0, disk_reserve_bytes=0, drain_timeout_s=5.0, **settings
        )
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> ServedNode:
        self._thread.start()
        assert self._started.wait(20)
        return self

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self.running = RunningNode(self.settings, self.observer)
        await self.running.start()
        self.token = self.running.token_file.read_text().strip()
        self.port = self.running.http.port
        self._started.set()
        await self._stopping.wait()
        await self.running.stop()

    def stop(self) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(20)
            assert not self._thread.is_alive()

    def begin_to_stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stopping.set)

    def on_loop(self, function: Callable[[], T]) -> T:
        """Runs something where the node runs."""

        async def run() -> T:
            return function()

        return self.awaited(run())

    def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, token: str | None = None, **options: Any) -> httpx.Client:
        """With the administrator's token, another one, or (empty) none."""
        token = self.token if token is None else token
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False, **options)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    node = ServedNode(tmp_path_factory.mktemp("http-node") / "data").start()
    yield node
    node.stop()


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[ServedNode]:
    """For tests that break something."""
    node = ServedNode(tmp_path / "data").start()
    yield node
    node.stop()


@pytest.fixture
def client(served: ServedNode) -> Iterator[httpx.Client]:
    with served.client() as found:
        yield found


@pytest.fixture
def stream(client: httpx.Client, request: pytest.FixtureRequest) -> str:
    """The path of a new stream with one partition, named after the test."""
    return make_stream(client, name_of(request))


def name_of(request: pytest.FixtureRequest) -> str:
    text = request.node.name.lower().removeprefix("test_")
    return "".join(char if char.isalnum() and char.isascii() else "-" for char in text)[:60].strip("-")


def make_stream(client: httpx.Client, name: str, **settings: Any) -> str:
    path = f"{BASE}/{name}"
    client.delete(path)
    client.put(path, json=settings).raise_for_status()
    return path


def append(client: httpx.Client, stream: str, *values: Any) -> dict[str, Any]:
    found = client.post(f"{stream}/records", json=[{"value": value} for value in values]).raise_for_status()
    reply: dict[str, Any] = found.json()
    return reply


def read(client: httpx.Client, stream: str, **query: Any) -> list[dict[str, Any]]:
    found = client.get(f"{stream}/records", params=query).raise_for_status()
    records: list[dict[str, Any]] = found.json()["records"]
    return records


def problem(response: httpx.Response) -> dict[str, Any]:
    """The body of a refusal, which has this one shape whatever went wrong."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    body: dict[str, Any] = response.json()
    assert body["status"] == response.status_code
    assert body.keys() >= {"type", "title", "status", "code", "detail"}
    assert body["type"] == f"/docs#{body['code']}"
    assert body.keys() <= {
        "type", "title", "status", "code", "detail", "field", "hint", "start_offset", "end_offset"
    }  # fmt: skip
    return body
