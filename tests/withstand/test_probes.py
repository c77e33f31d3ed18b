"""Ten thousand probes of each wire for what belongs to another tenant: what is there and what is not look the same.

Every probe is made twice, for a thing that exists and for its twin, which has a name of the same length and does not.
Both answers have to be equal, byte for byte, once the twin's names are put in the place of the real ones.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import httpx
import msgspec
import pytest

from flowmesh.format import frame
from flowmesh.format.frame import Frame, FrameDecoder, FrameKind
from flowmesh.operations.table import BY_NAME, OPERATIONS, Operation, Scope
from flowmesh.testing import NodeProcess
from tests.withstand.talk import Ports

PROBES = 10_000
AT_ONCE = 50
CONNECTIONS = 8
SECRET = "what-only-the-other-tenant-may-see"
REAL = {"tenant": "victim", "namespace": "vaults", "name": "orders", "group": "auditors"}
TWIN = {"tenant": "victin", "namespace": "vaultz", "name": "ordert", "group": "auditort"}
ADDRESSED = [operation for operation in OPERATIONS if operation.scope in (Scope.STREAM, Scope.NAMESPACE)]
REFUSALS = {"NOT_FOUND", "BAD_REQUEST", "UNKNOWN_COMMAND", "FORBIDDEN"}
Trick = Callable[[str], str]
TRICKS: dict[str, Trick] = {
    "as it is": str,
    "upper": str.upper,
    "title": str.title,
    "space behind": lambda name: name + " ",
    "tab before": lambda name: "\t" + name,
    "line end": lambda name: name + "\n",
    "nul": lambda name: name + "\0",
    "nul inside": lambda name: name[:2] + "\0" + name[2:],
    "dot": lambda name: name + ".",
    "dots before": lambda name: "../" + name,
    "dots behind": lambda name: name + "/..",
    "there and back": lambda name: f"probing/../{name}",
    "dot folder": lambda name: "./" + name,
    "slash": lambda name: name + "/",
    "backslash": lambda name: "..\\" + name,
    "encoded slash": lambda name: "%2f" + name,
    "encoded dots": lambda name: "%2e%2e%2f" + name,
    "encoded twice": lambda name: "%252e%252e%252f" + name,
    "first letter encoded": lambda name: f"%{ord(name[0]):02x}{name[1:]}",
    "first letter encoded twice": lambda name: f"%25{ord(name[0]):02x}{name[1:]}",
    "overlong dot": lambda name: "%c0%ae%c0%ae/" + name,
    "full width (NFKC)": lambda name: chr(ord(name[0]) + 0xFEE0) + name[1:],
    "mathematical (NFKC)": lambda name: chr(0x1D41A + ord(name[0]) - 97) + name[1:],
    "combining (NFC)": lambda name: name[0] + "\u0301" + name[1:],
    "composed (NFC)": lambda name: "\u00f3" + name[1:],
    "look-alike": lambda name: name.replace("o", "\u043e").replace("i", "\u0456"),
    "nothing wide": lambda name: name[:3] + "\u200b" + name[3:],
    "right to left": lambda name: "\u202e" + name,
    "star": lambda name: name + "*",
    "all": lambda name: "*",
    "nothing": lambda name: "",
    "query": lambda name: name + "?x=1",
    "fragment": lambda name: name + "#x",
    "parameter": lambda name: name + ";x=1",
    "quoted": lambda name: f"'{name}'",
    "dollar": lambda name: "${" + name + "}",
    "template": lambda name: "{" + name + "}",
    "long": lambda name: name * 20,
    "very long": lambda name: name * 400,
    "dash": lambda name: "-" + name,
    "whole path": lambda name: f"probing/own/{name}",
}
PLAIN = "as it is"
ODD = ["", "", "", "", "partition", "offset", "window", "nonsense"]


class Probe(NamedTuple):
    operation: Operation
    tricks: dict[str, str]
    """By field; a trick is played on the name that stands there."""
    encode_all: bool
    """Over HTTP: whether the path is percent-encoded after the trick was played, or goes out as it is."""
    odd: str
    """A field that is out of its bounds, or none of this operation's: said of both, or of neither."""

    def names(self, place: dict[str, str]) -> dict[str, str]:
        return {field: TRICKS[trick](place[field]) for field, trick in self.tricks.items()}


def probes(count: int, seed: int) -> list[Probe]:
    """Each trick on each field of each operation in turn; then mixtures."""
    random = Random(seed)
    found: list[Probe] = []
    while len(found) < count:
        operation = random.choice(ADDRESSED)
        fields = [field for field in REAL if field in operation.request.__struct_fields__]
        tricks = dict.fromkeys(fields, PLAIN)
        for field in random.sample(fields, random.choice([0, 1, 1, 1, 2])):
            tricks[field] = random.choice(list(TRICKS))
        found.append(Probe(operation, tricks, random.random() < 0.5, random.choice(ODD)))
    return found


def as_twin(text: bytes, probe: Probe) -> bytes:
    """An answer about the real thing, in the words for its twin: names as they were sent, decoded, and as they are."""
    pairs = [*zip(probe.names(REAL).values(), probe.names(TWIN).values(), strict=True)]
    pairs += [(unquote(real), unquote(twin)) for real, twin in pairs] + [(REAL[field], TWIN[field]) for field in REAL]
    for real, twin in sorted(set(pairs), key=lambda pair: -len(pair[0])):
        for form in (_plain, _shown, _quoted):
            if len(form(real)) > 2:
                text = text.replace(form(real), form(twin))
    return text


def _plain(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _shown(name: str) -> bytes:
    """As Python shows it, which is how a message quotes what is no name."""
    return repr(name[:80])[1:-1].encode("utf-8", "surrogatepass")


def _quoted(name: str) -> bytes:
    """As JSON quotes what Python shows."""
    return msgspec.json.encode(repr(name[:80])[1:-1])[1:-1]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("probed") / "data") as running:
        with operator(running) as http:
            for tenant in ("victim", "probing"):
                http.put(f"/v1/tenants/{tenant}").raise_for_status()
            for stream in ("/v1/victim/vaults/streams/orders", "/v1/probing/own/streams/orders"):
                http.put(stream, json={"partitions": 2}).raise_for_status()
            http.post("/v1/victim/vaults/streams/orders/records", json={"value": SECRET}).raise_for_status()
        yield running
        assert "Traceback" not in running.log_file.read_text()


def operator(node: NodeProcess) -> httpx.Client:
    headers = {"authorization": f"Bearer {node.token}"}
    return httpx.Client(base_url=node.http_url, headers=headers, timeout=60, trust_env=False)


@pytest.fixture(scope="module")
def thief(node: NodeProcess) -> str:
    """May do everything, in its own tenant."""
    form = {"tenant": "probing", "permissions": ["admin"]}
    with operator(node) as http:
        token: str = http.post("/v1/tokens", json=form).raise_for_status().json()["token"]
    return token


def require_untouched(node: NodeProcess) -> None:
    with operator(node) as http:
        records = http.get("/v1/victim/vaults/streams/orders/records?partition=0").json()["records"]
        records += http.get("/v1/victim/vaults/streams/orders/records?partition=1").json()["records"]
        assert [record["value"] for record in records] == [SECRET]
        assert http.get("/v1/victim/vaults/streams").json() == {"streams": ["orders"]}
        assert len(http.get("/v1/tenants").json()["tenants"]) == 3


# --- HTTP ---------------------------------------------------------------------------------------------------------


def http_request(probe: Probe, place: dict[str, str], token: str) -> bytes:
    safe = "" if probe.encode_all else "%/?#;*'.$~\\"
    names = {field: quote(name, safe=safe) for field, name in probe.names(place).items()}
    path = probe.operation.route.format(**{field: name[:20_000] for field, name in names.items()})
    body = b'{"value":"x"}' if probe.operation.name == "stream.append" else b"{}"
    path += f"?{probe.odd}=999" if probe.odd else ""
    head = f"{probe.operation.method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def ask_http(port: int, token: str, share: list[Probe]) -> list[tuple[Probe, int, bytes, bytes]]:
    """By probe the status and the two answers, without what tells only when and how long."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = []
    for start in range(0, len(share), AT_ONCE):
        batch = share[start : start + AT_ONCE]
        for probe in batch:
            writer.write(http_request(probe, REAL, token) + http_request(probe, TWIN, token))
        for probe in batch:
            (status, real), (_, twin) = [await hear_http(reader) for _ in range(2)]
            found.append((probe, status, real, twin))
    writer.close()
    return found


async def hear_http(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    body = await reader.readexactly(int(length[1])) if length else b""
    return int(head.split()[1]), re.sub(rb"(date|content-length): [^\r]*\r\n", b"", head) + body


def test_probes_over_http_tell_nothing(node: NodeProcess, thief: str, capfd: pytest.CaptureFixture[str]) -> None:
    port = Ports.of(node.http_url, node.url).http
    wanted = probes(PROBES // 2, 1)

    async def run() -> list[tuple[Probe, int, bytes, bytes]]:
        shares = [wanted[start::CONNECTIONS] for start in range(CONNECTIONS)]
        return [
            one for share in await asyncio.gather(*(ask_http(port, thief, share) for share in shares)) for one in share
        ]

    found, outcomes = asyncio.run(run()), Counter[str]()
    for probe, status, real, twin in found:
        code = msgspec.json.decode(real.partition(b"\r\n\r\n")[2])["code"]
        assert code in REFUSALS, (probe, real)
        assert status in (400, 403, 404, 405, 431), (probe, real)
        assert as_twin(real, probe) == twin, probe
        assert SECRET.encode() not in real
        outcomes[f"{status} {code}"] += 2
    tell(capfd, "HTTP", outcomes)
    require_untouched(node)


# --- frames -------------------------------------------------------------------------------------------------------


def frame_request(probe: Probe, place: dict[str, str], number: int) -> bytes:
    body = b"x" if probe.operation.name == "stream.append" else b""
    header = msgspec.msgpack.encode(probe.names(place) | ({probe.odd: 999} if probe.odd else {}))
    return frame.encode(FrameKind.REQUEST, probe.operation.code, number, header, body)


async def ask_frames(port: int, token: str, share: list[Probe]) -> list[tuple[Probe, Frame, Frame]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    decoder, answers = FrameDecoder(), dict[int, Frame]()
    writer.write(frame.encode(FrameKind.HELLO, 0, 1, msgspec.msgpack.encode({"token": token})))
    found = []
    for start in range(0, len(share), AT_ONCE):
        batch = share[start : start + AT_ONCE]
        for number, probe in enumerate(batch, 1):
            writer.write(frame_request(probe, REAL, 2 * number) + frame_request(probe, TWIN, 2 * number + 1))
        while len(answers.keys() - {1}) < 2 * len(batch):
            data = await reader.read(1 << 16)
            assert data, "the node closed the connection"
            items = [
                one for item in decoder.feed(data) for one in ([item] if isinstance(item, Frame) else item.frames())
            ]
            answers |= {item.correlation: item for item in items}
        found += [
            (probe, answers.pop(2 * number), answers.pop(2 * number + 1)) for number, probe in enumerate(batch, 1)
        ]
    writer.close()
    return found


def test_probes_over_frames_tell_nothing(node: NodeProcess, thief: str, capfd: pytest.CaptureFixture[str]) -> None:
    port = Ports.of(node.http_url, node.url).frames
    wanted = probes(PROBES // 2, 2)

    async def run() -> list[tuple[Probe, Frame, Frame]]:
        shares = [wanted[start::CONNECTIONS] for start in range(CONNECTIONS)]
        return [
            one
            for share in await asyncio.gather(*(ask_frames(port, thief, share) for share in shares))
            for one in share
        ]

    found, outcomes = asyncio.run(run()), Counter[str]()
    for probe, real, twin in found:
        assert real.kind == twin.kind == FrameKind.ERROR, (probe, real)
        told, of_twin = msgspec.msgpack.decode(real.header), msgspec.msgpack.decode(twin.header)
        assert told["code"] in REFUSALS, (probe, told)
        assert told.keys() == of_twin.keys()
        assert as_twin(repr_of(told), probe) == repr_of(of_twin), probe
        assert len(real.body) == len(twin.body) == 0
        outcomes[told["code"]] += 2
    tell(capfd, "frames", outcomes)
    require_untouched(node)


def repr_of(told: dict[str, Any]) -> bytes:
    return msgspec.json.encode(told)


def tell(capfd: pytest.CaptureFixture[str], wire: str, outcomes: Counter[str]) -> None:
    assert outcomes.total() == PROBES
    with capfd.disabled():
        sys.stderr.write(f"\n{wire}: {outcomes.total()} probes for another tenant's streams: {dict(outcomes)}\n")


# --- what has no stream in its address ----------------------------------------------------------------------------


def test_tokens_and_tenants_of_others_are_not_told_from_what_is_not_there(node: NodeProcess, thief: str) -> None:
    with operator(node) as http:
        form = {"tenant": "victim", "permissions": ["stream.read"]}
        foreign = http.post("/v1/tokens", json=form).raise_for_status().json()["id"]
    absent = "a" * len(foreign)
    with httpx.Client(
        base_url=node.http_url, headers={"authorization": f"Bearer {thief}"}, timeout=60, trust_env=False
    ) as http:
        for method, path, body in (
            ("DELETE", "/v1/tokens/{id}", None),
            ("POST", "/v1/tokens/{id}/rotate", {}),
            ("POST", "/v1/tokens/{id}/rotate", {"overlap_s": -1}),
            ("DELETE", "/v1/tenants/{tenant}", None),
            ("PUT", "/v1/tenants/{tenant}", None),
            ("GET", "/v1/tokens?tenant={tenant}", None),
            ("POST", "/v1/tokens", {"tenant": "{tenant}", "permissions": ["stream.read"]}),
            ("POST", "/v1/tokens", {"tenant": "{tenant}", "permissions": ["nonsense"]}),
        ):
            answers = []
            for tenant, token_id in (("victim", foreign), ("victin", absent)):
                given = (
                    None
                    if body is None
                    else {
                        name: value.format(tenant=tenant) if isinstance(value, str) else value
                        for name, value in body.items()
                    }
                )
                found = http.request(method, path.format(tenant=tenant, id=token_id), json=given)
                told = found.text.replace(token_id, "ID").replace(tenant, "TENANT")
                answers.append((found.status_code, told))
            assert answers[0] == answers[1], (method, path)
            assert answers[0][0] in (400, 403, 404), answers[0]
        assert {token["tenant"] for token in http.get("/v1/tokens").json()["tokens"]} == {"probing"}
        assert [tenant["tenant"] for tenant in http.get("/v1/tenants").json()["tenants"]] == ["probing"]
    require_untouched(node)


def test_every_operation_that_names_a_stream_is_probed() -> None:
    tried = {probe.operation.name for probe in probes(PROBES // 2, 1)}
    assert tried == {operation.name for operation in BY_NAME.values() if operation in ADDRESSED}
