"""Tokens in every place where somebody may put them: none of their secrets in a log, metric, error or stored file."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec

from flowmesh.format import frame
from flowmesh.format.frame import FrameKind
from flowmesh.operations.table import BY_NAME, OPERATIONS
from tests.api.frames.wire import PLACE, Ended, Wire
from tests.serve.nodes import Served, serving
from tests.withstand.talk import PATIENCE_S, STREAM_URL, Honest, Ports

SECRET_CHARS_MIN = 40
FREE_TEXT = {"description", "location"}
"""What users write there is theirs, and kept as it is."""
SHOWN = 12
"""So many characters of a secret in a row are a leak."""


class Everything:
    """All that a node says on both wires, and all that it may not."""

    def __init__(self, node: Served) -> None:
        self.node = node
        self.ports = Ports.of(node.facts["http"], node.facts["frames"])
        self.tokens = [node.token]
        self.said: list[bytes] = []

    def http(self, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> bytes:
        connection = HTTPConnection("127.0.0.1", self.ports.http, timeout=PATIENCE_S)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        assert answer.status < 500, data
        self.said.append(f"{answer.status} {answer.getheaders()}".encode() + data)
        return data

    def frames(self, token: str, *said: bytes) -> None:
        """Whatever is answered until all is, or the connection ends."""
        with Wire(self.ports.frames) as wire:
            wire.send(FrameKind.HELLO, 0, {"token": token, "client": f"client {self.tokens[0]}"})
            wire.socket.sendall(b"".join(said))
            wire.send(FrameKind.PING, 0, number=999_999)
            try:
                while (answer := wire.receive()).correlation not in (0, 999_999):
                    self.said.append(answer.header + bytes(answer.body))
                self.said.append(answer.header)
            except (Ended, ConnectionError):
                pass

    def secrets(self) -> list[str]:
        found = [token.partition(".")[2] for token in self.tokens]
        assert min(map(len, found)) >= SECRET_CHARS_MIN
        return found

    def require_absent(self, place: str, text: bytes) -> None:
        for secret in self.secrets():
            for start in range(0, len(secret) - SHOWN, 4):
                piece = secret[start : start + SHOWN].encode()
                where = text.find(piece)
                assert where < 0, f"{place}: {text[max(0, where - 200) : where + 60]!r}"


def make_tokens(everything: Everything) -> None:
    """Some that are good, and some that are good no more."""
    admin = {"authorization": f"Bearer {everything.node.token}", "content-type": "application/json"}
    for form in (
        {"tenant": "default", "permissions": ["stream.read"]},
        {"tenant": "default", "permissions": ["stream.write"], "namespaces": ["default"]},
        {"tenant": "*", "permissions": ["admin"]},
    ):
        connection = HTTPConnection("127.0.0.1", everything.ports.http, timeout=PATIENCE_S)
        connection.request("POST", "/v1/tokens", json.dumps(form), admin)
        everything.tokens.append(json.loads(connection.getresponse().read())["token"])
        connection.close()
    identity = everything.tokens[1].partition(".")[0]
    connection = HTTPConnection("127.0.0.1", everything.ports.http, timeout=PATIENCE_S)
    connection.request("POST", f"/v1/tokens/{identity}/rotate", '{"overlap_s": 0}', admin)
    everything.tokens.append(json.loads(connection.getresponse().read())["token"])
    connection.close()


def say_tokens_over_http(everything: Everything, token: str) -> None:
    """As user, as name, as field, as value, as header, as anything that it is not."""
    good = {"authorization": f"Bearer {everything.node.token}", "content-type": "application/json"}
    for scheme in ("Bearer ", "bearer  ", "Basic ", "Token ", "", "Bearer x"):
        everything.http("GET", "/v1/node", {"authorization": scheme + token})
        everything.http("GET", "/v1/node", {"authorization": f"{scheme}{token}x"})
    everything.http(
        "GET", "/v1/node", {"x-token": token, "cookie": f"token={token}", "user-agent": token, "host": token}
    )
    for path in (
        f"/v1/node?token={token}",
        f"/v1/node?{token}=1",
        f"/{token}",
        f"/v1/{token}/default/streams/honest",
        f"/v1/default/{token}/streams",
        f"/v1/default/default/streams/{token}/records",
        f"{STREAM_URL}/records?offset={token}",
        f"{STREAM_URL}/records?at={token}",
        f"{STREAM_URL}/records?time={token}",
        f"{STREAM_URL}/offset?at={token}",
        f"{STREAM_URL}/records?access_token={token}",
        f"{STREAM_URL}/groups/{token}",
    ):
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", token[:10].upper()):
            everything.http(method, path, good, b"{}" if method != "GET" else None)
    for body in (
        {"tenant": token, "permissions": ["stream.read"]},
        {"tenant": "default", "permissions": [token]},
        {"tenant": "default", "permissions": ["stream.read"], "namespaces": [token]},
        {"tenant": "default", "permissions": ["stream.read"], "expires_in_s": token},
        {token: token},
    ):
        everything.http("POST", "/v1/tokens", good, json.dumps(body).encode())
    for media in ("application/json", "application/x-ndjson", token, f"application/json; token={token}"):
        for text in (
            f'{{"value": 1, "{token}": 1}}',
            f'{{"value": 1, "time": "{token}"}}',
            f'{{"value": "{token}',
            token,
        ):
            everything.http("POST", f"{STREAM_URL}/records", {**good, "content-type": media}, text.encode())
    for name in ("accept", "content-encoding", "last-event-id"):
        everything.http("GET", f"{STREAM_URL}/events?at=latest&window=0", {**good, name: token})
        everything.http("POST", f"{STREAM_URL}/records", {**good, name: token}, b"{")
    for identity in (token, f"{token}/rotate"):
        everything.http("DELETE", f"/v1/tokens/{identity}", good)
        everything.http("POST", f"/v1/tokens/{identity}", good, b"{}")
    everything.http("PUT", f"/v1/tenants/{token}", good)
    everything.http("DELETE", f"/v1/tenants/{token}", good)


def say_tokens_over_frames(everything: Everything, token: str) -> None:
    for given in (token, f"{token}x", f"x{token}", f"Bearer {token}"):
        everything.frames(given)
    said: list[bytes] = []
    for operation in OPERATIONS:
        known = {"tenant": "default", "namespace": "default", "name": "honest", "id": "none", "group": "g"}
        least = {name: value for name, value in known.items() if name in operation.request.__struct_fields__}
        for field in {*operation.request.__struct_fields__, token} - FREE_TEXT:
            header = msgspec.msgpack.encode({**least, field: token})
            said.append(frame.encode(FrameKind.REQUEST, operation.code, len(said) + 2, header))
    everything.frames(everything.node.token, *said)
    for kind in (FrameKind.ACK, FrameKind.HELLO):
        everything.frames(everything.node.token, frame.encode(kind, 0, 2, msgspec.msgpack.encode({"offset": token})))
    header = msgspec.msgpack.encode({**PLACE, "name": "honest"})
    batch = frame.encode(FrameKind.REQUEST, BY_NAME["stream.append"].code, 2, header, token.encode() * 9, flags=2)
    everything.frames(everything.node.token, batch)


@contextmanager
def everything_said(directory: Path) -> Iterator[Everything]:
    with serving(directory / "data", "--log-level", "debug") as node:
        everything = Everything(node)
        honest = Honest(everything.ports, node.token)
        honest.require_served()
        make_tokens(everything)
        for token in everything.tokens:
            say_tokens_over_http(everything, token)
            say_tokens_over_frames(everything, token)
        for page in (
            "/v1/tokens",
            "/metrics",
            "/v1/node",
            STREAM_URL,
            "/openapi.json",
            "/docs",
            "/healthz",
            "/v1/tenants",
        ):
            everything.http("GET", page, {"authorization": f"Bearer {node.token}"})
        honest.require_served()
        honest.close()
        yield everything


def test_no_secret_is_said_logged_or_stored(tmp_path: Path) -> None:
    with everything_said(tmp_path) as everything:
        node = everything.node
        assert node.stop() == 0
        assert node.process.stdout is not None
        assert len(everything.said) > 500
        everything.require_absent("what it printed", (json.dumps(node.facts) + node.process.stdout.read()).encode())
        everything.require_absent("its log", node.log.read_bytes())
        files = [path for path in node.data_dir.rglob("*") if path.is_file()]
        assert len(files) > 5
        for path in files:
            if path.name != "admin.token":
                everything.require_absent(str(path), path.read_bytes())
        token_file = node.data_dir / "admin.token"
        assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
        assert stat.S_IMODE(node.data_dir.stat().st_mode) == 0o700
        for answer in everything.said:
            everything.require_absent("an answer", answer)


def test_a_leak_would_be_found(tmp_path: Path) -> None:
    """The check sees a whole secret, and a part of one."""
    with serving(tmp_path / "data") as node:
        everything: Any = Everything(node)
        secret = node.token.partition(".")[2]
        everything.require_absent("here", b"nothing")
        for leak in (secret, secret[:20], secret[10:26]):
            try:
                everything.require_absent("here", f"token={leak}".encode())
            except AssertionError:
                continue
            raise RuntimeError("a leak was not seen")
