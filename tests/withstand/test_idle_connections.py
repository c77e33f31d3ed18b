"""Ten thousand connections that say nothing: each costs a bounded piece of memory, and everybody else is served."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from flowmesh.base.limits import KIB, MIB
from flowmesh.client import connect_blocking
from flowmesh.testing import NodeProcess
from tests.withstand.memory import resident_bytes

ROOT = Path(__file__).resolve().parents[2]
CONNECTIONS = 10_000
BYTES_EACH_MAX = {"frames": 12 * KIB, "http": 12 * KIB}
CALLS = 100
URL = "/v1/default/default/streams/beside"


@contextmanager
def idle(port: int, wire: str, token: str) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.withstand.idle_process"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert say(child, f"{wire} {port} {token} {CONNECTIONS}").startswith("open ")
        yield child
    finally:
        child.kill()
        child.communicate()


def say(child: subprocess.Popen[str], line: str) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(f"{line}\n")
    child.stdin.flush()
    return child.stdout.readline()


def use(node: NodeProcess) -> None:
    """What somebody else does meanwhile, on both wires, each time over a new connection."""
    with httpx.Client(
        base_url=node.http_url, headers={"authorization": f"Bearer {node.token}"}, timeout=60, trust_env=False
    ) as http:
        for number in range(CALLS):
            http.post(f"{URL}/records", json={"value": f"{number}"}).raise_for_status()
        http.get(f"{URL}/records?at=earliest&limit=10").raise_for_status()
    with connect_blocking(node.url, token=node.token) as client:
        stream = client.stream("beside")
        for _ in range(CALLS):
            stream.append(b"x")
        assert stream.read(0)


def connected(node: NodeProcess, wire: str) -> int:
    page = httpx.get(
        f"{node.http_url}/metrics", headers={"authorization": f"Bearer {node.token}"}, timeout=60, trust_env=False
    )
    (line,) = [line for line in page.text.splitlines() if line.startswith(f'flowmesh_connections{{wire="{wire}"}}')]
    return int(float(line.split()[-1]))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("idle") / "data") as running:
        with connect_blocking(running.url, token=running.token) as client:
            client.create_stream("beside")
        use(running)
        yield running


@pytest.mark.parametrize("wire", ["frames", "http"])
def test_ten_thousand_idle_connections_cost_a_bounded_piece_each(
    node: NodeProcess, wire: str, capfd: pytest.CaptureFixture[str]
) -> None:
    address = node.url if wire == "frames" else node.http_url
    before = resident_bytes(node.pid)
    with idle(int(address.rpartition(":")[2]), wire, node.token) as child:
        count = connected(node, wire)
        with capfd.disabled():
            grown = resident_bytes(node.pid) - before
            sys.stderr.write(f"\n{wire}: N = {count} idle connections, {grown / count:.0f} bytes of the node each\n")
        assert count >= CONNECTIONS, "this machine allows fewer open files"
        assert grown < count * BYTES_EACH_MAX[wire]
        settled = resident_bytes(node.pid)
        use(node)
        assert say(child, "use").split() == ["used", str(CONNECTIONS // 100)]
        use(node)
        assert resident_bytes(node.pid) - settled < 16 * MIB
        assert connected(node, wire) >= count, "nobody was sent away"
    deadline = time.monotonic() + 60
    while connected(node, wire) > 2:
        assert time.monotonic() < deadline, "connections that have ended are still counted"
        time.sleep(0.1)
    use(node)
