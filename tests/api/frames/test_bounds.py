"""Many idle connections, slow senders and slow readers: bounded memory, and everybody else served."""

from __future__ import annotations

import re
import resource
import socket
import time
from pathlib import Path

import pytest

from flowmesh.base.limits import MIB
from flowmesh.format.frame import PREFIX, FrameKind
from flowmesh.testing import NodeProcess
from tests.api.frames.wire import PLACE, Wire


def resident_bytes(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def port_of(process: NodeProcess) -> int:
    return int(process.url.rpartition(":")[2])


def idle_connections(process: NodeProcess, count: int) -> list[Wire]:
    """Welcomed connections that do nothing more; from several addresses, as one has too few ports."""
    return [Wire(port_of(process), process.token, source=f"127.0.0.{2 + row // 20_000}") for row in range(count)]


def idle_costs(process: NodeProcess, count: int) -> None:
    with Wire(port_of(process), process.token) as wire:
        wire.create("served")
        wire.call("stream.append", b"warm", **PLACE, name="served")
        before = resident_bytes(process.pid)
        idle = idle_connections(process, count)
        settled = resident_bytes(process.pid)
        assert settled - before < count * 24 * 1024
        for _ in range(20):
            assert "appends" in wire.call("stream.append", b"x", **PLACE, name="served")
        time.sleep(2.5)
        assert resident_bytes(process.pid) - settled < 8 * MIB
        for each in (idle[0], idle[-1]):
            assert "id" in each.call("node.describe")
        for each in idle:
            each.socket.close()


def test_a_thousand_idle_connections_cost_little(process: NodeProcess) -> None:
    idle_costs(process, 1000)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_ten_thousand_idle_connections_cost_little(process: NodeProcess) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 10_500:
        pytest.skip(f"this process may open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (10_500, hard))
    try:
        idle_costs(process, 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_slow_senders_hold_what_they_sent_and_no_more(process: NodeProcess) -> None:
    with Wire(port_of(process), process.token) as wire:
        before = resident_bytes(process.pid)
        slow = [Wire(port_of(process), process.token) for _ in range(50)]
        for each in slow:
            each.socket.sendall(PREFIX.pack(30 * MIB, 1, 1, FrameKind.REQUEST, 0, 21, 10))
        assert "id" in wire.call("node.describe")
        assert resident_bytes(process.pid) - before < 16 * MIB
        for each in slow:
            each.socket.close()


def test_a_reader_that_asks_for_much_and_takes_nothing_is_held_back(process: NodeProcess) -> None:
    with Wire(port_of(process), process.token) as wire:
        wire.create("heavy")
        for _ in range(12):
            assert "appends" in wire.call("stream.append", bytes(4 * MIB), **PLACE, name="heavy")
        before = resident_bytes(process.pid)
        deaf = Wire(port_of(process), process.token)
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        for _ in range(40):
            deaf.ask("stream.read", **PLACE, name="heavy", bytes_max=32 * MIB)
        time.sleep(1.0)
        assert "appends" in wire.call("stream.append", b"x", **PLACE, name="heavy")
        # Four reads may hold their data at once; forty of them would be more than a gigabyte.
        assert resident_bytes(process.pid) - before < 5 * 36 * MIB
        for _ in range(40):
            assert len(deaf.receive().body) > 20 * MIB
        deaf.socket.close()
