"""More connections than a node may have files open: those beyond are sent away, and its logs still open theirs."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path

from flowmesh.base.limits import CONNECTIONS_SHARE, KIB
from flowmesh.format.frame import FrameKind
from tests.api.frames.wire import PLACE, Ended, Wire
from tests.serve.nodes import serving
from tests.withstand.talk import PATIENCE_S, Honest, Ports

DESCRIPTORS = 400
CROWD = 500
LIMITED = f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS}))\n"
PROGRAM = ("-c", f"{LIMITED}from flowmesh.cli.main import main\nmain()")


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def crowd(ports: Ports) -> list[socket.socket]:
    """All at once, half of them over each wire; who gets in by HTTP says a little, and all stay."""
    found = []
    for number in range(CROWD):
        one = socket.socket()
        one.setblocking(False)
        with suppress(BlockingIOError):
            one.connect(("127.0.0.1", ports.http if number % 2 else ports.frames))
        found.append(one)
    time.sleep(1)
    for one in found[1::2]:
        with suppress(OSError):
            one.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
    return found


def test_a_crowd_of_connections_does_not_take_the_files_of_the_logs(tmp_path: Path) -> None:
    with serving(tmp_path / "data", program=PROGRAM) as node:
        ports = Ports.of(node.facts["http"], node.facts["frames"])
        honest = Honest(ports, node.token)
        honest.wire.call("stream.create", **PLACE, name="rolls", segment_bytes=64 * KIB)
        honest.require_served()
        several = crowd(ports)
        honest.require_served()
        assert open_files(node.process.pid) < DESCRIPTORS
        for number in range(12):
            appended = honest.wire.call("stream.append", bytes(60 * KIB), **PLACE, name="rolls")
            assert "appends" in appended, appended
            assert "code" not in honest.wire.call("stream.create", **PLACE, name=f"made-in-a-crowd-{number}")
        for one in several:
            one.close()
        wait_for_room(ports, node.token)
        honest.require_served()
        honest.close()
        assert "Too many open files" not in node.log.read_text()
        assert "Traceback" not in node.log.read_text()


def wait_for_room(ports: Ports, token: str) -> None:
    """As many as there is room for come in again, once those who filled it are gone."""
    deadline, inside = time.monotonic() + PATIENCE_S, list[Wire]()
    while len(inside) < int(DESCRIPTORS * CONNECTIONS_SHARE) // 2:
        assert time.monotonic() < deadline, "there is no room again"
        wire = Wire(ports.frames)
        wire.send(FrameKind.HELLO, 0, {"token": token})
        try:
            assert wire.receive().kind == FrameKind.REPLY
            inside.append(wire)
        except (AssertionError, ConnectionError, Ended):
            wire.socket.close()
            time.sleep(0.1)
    for wire in inside:
        wire.socket.close()
