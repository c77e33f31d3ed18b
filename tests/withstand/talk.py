"""Strangers on a node's sockets, who send what they like, and an honest client beside them."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection
from typing import Any, NamedTuple

from flowmesh.format.frame import FrameKind
from tests.api.frames.wire import PLACE, Wire, content

PATIENCE_S = 60.0
STREAM = "honest"
STREAM_URL = f"/v1/default/default/streams/{STREAM}"


class Ports(NamedTuple):
    http: int
    frames: int

    @classmethod
    def of(cls, http_url: str, frames_url: str) -> Ports:
        return cls(int(http_url.rpartition(":")[2]), int(frames_url.rpartition(":")[2]))


def dial(port: int, *, source: str = "127.0.0.1", receive_bytes: int | None = None) -> socket.socket:
    one = socket.socket()
    one.settimeout(PATIENCE_S)
    if receive_bytes is not None:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    one.bind((source, 0))
    one.connect(("127.0.0.1", port))
    return one


class Honest:
    """A client with a connection on each wire, which it keeps, and expects to be served on whatever others do."""

    def __init__(self, ports: Ports, token: str) -> None:
        self.wire = Wire(ports.frames, token)
        self.http = HTTPConnection("127.0.0.1", ports.http, timeout=PATIENCE_S)
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self.wire.call("stream.create", **PLACE, name=STREAM)

    def close(self) -> None:
        self.wire.socket.close()
        self.http.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        self.http.request(method, path, None if body is None else json.dumps(body), self._headers)
        answer = self.http.getresponse()
        data = answer.read()
        assert answer.status < 300, data
        return json.loads(data) if "json" in (answer.getheader("content-type") or "") else data.decode()

    def require_served(self) -> None:
        """An append on each wire, read over the other one."""
        (placed,) = self.wire.call("stream.append", b"over frames", **PLACE, name=STREAM)["appends"]
        page = self.ask("GET", f"{STREAM_URL}/records?offset={placed['base_offset']}&limit=1")
        assert page["records"][0]["value"] == "over frames"
        (placed,) = self.ask("POST", f"{STREAM_URL}/records", {"value": "over HTTP"})["appends"]
        number = self.wire.ask("stream.read", **PLACE, name=STREAM, offset=placed["base_offset"])
        answer = self.wire.receive()
        assert (answer.kind, answer.correlation) == (FrameKind.REPLY, number), content(answer)
        assert b"over HTTP" in answer.body
