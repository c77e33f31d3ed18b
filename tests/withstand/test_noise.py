"""Bytes that are nonsense, torn, too long or almost right, on the sockets of a node: one connection ends, and no more.

What is never to be seen is a fault of the node itself: no 5xx, no `INTERNAL`, no traceback in its log.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowmesh.base.limits import MIB
from flowmesh.format import frame
from flowmesh.format.frame import PREFIX, FrameKind
from flowmesh.operations.table import OPERATIONS
from flowmesh.testing import NodeProcess
from tests.withstand.talk import STREAM, STREAM_URL, Honest, Ports, dial

EXAMPLES = 150
LIVE = settings(max_examples=EXAMPLES)
_SERVER_ERROR = re.compile(rb"^HTTP/1\.1 5\d\d ", re.MULTILINE)
NAMES = {"tenant": "default", "namespace": "default", "name": STREAM, "group": "g", "id": "none", "partition": 0}


class Noisy:
    """A node, and an honest client whose connections outlive all the noise on others."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.ports = Ports.of(node.http_url, node.url)
        self.honest = Honest(self.ports, node.token)
        self.hello = frame.encode(FrameKind.HELLO, 0, 1, msgspec.msgpack.encode({"token": node.token}))

    def send(self, port: int, *pieces: bytes, greeting: bytes = b"") -> bytes:
        """What the node says to these bytes until it ends the connection, which it does once there are no more."""
        heard = b""
        with dial(port) as one:
            if greeting:
                one.sendall(greeting)
                assert one.recv(65_536), "the welcome"
            with suppress(OSError):
                for piece in pieces:
                    one.sendall(piece)
                one.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                while data := one.recv(65_536):
                    heard += data
        return heard

    def require_sound(self, heard: bytes) -> None:
        assert not _SERVER_ERROR.search(heard), heard
        assert b"INTERNAL" not in heard, heard
        assert self.node.running
        self.honest.require_served()


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Noisy]:
    with NodeProcess(tmp_path_factory.mktemp("noise") / "data") as node:
        found = Noisy(node)
        yield found
        found.honest.require_served()
        metrics = found.honest.ask("GET", "/metrics")
        found.honest.close()
        faults = [line for line in metrics.splitlines() if 'outcome="INTERNAL"' in line and not line.endswith(" 0.0")]
        assert not faults
        log = node.log_file.read_text()
        assert "Traceback" not in log, log[-3000:]
        assert '"level":"error"' not in log.replace(" ", "").lower(), log[-3000:]


# --- HTTP ---------------------------------------------------------------------------------------------------------

METHODS = st.sampled_from(
    [b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT", b"X"]
)
PATHS = st.sampled_from(
    [operation.route.format_map({**NAMES, "partition": "0"}).encode() for operation in OPERATIONS]
    + [b"/", b"*", b"//", b"/v1", b"/healthz", b"/metrics", b"/openapi.json", b"http://x/healthz", STREAM_URL.encode()]
) | st.binary(max_size=60)
HEADERS = st.lists(
    st.tuples(
        st.sampled_from([b"content-length", b"transfer-encoding", b"content-type", b"content-encoding", b"accept",
                         b"expect", b"connection", b"upgrade", b"last-event-id", b"range", b"host"])
        | st.binary(max_size=12),
        st.sampled_from([b"0", b"5", b"-1", b"99999999999999999999", b"chunked", b"gzip", b"zstd", b"application/json",
                         b"application/x-ndjson", b"application/vnd.apache.arrow.stream", b"application/octet-stream",
                         b"text/event-stream", b"100-continue", b"close", b"h2c", b"+5", b"0x5", b"5, 5"])
        | st.binary(max_size=20),
    ),
    max_size=5,
)  # fmt: skip
BODIES = st.binary(max_size=200) | st.sampled_from(
    [
        b'{"value":1}',
        b"[]",
        b"{}",
        b"5\r\nhello\r\n0\r\n\r\n",
        b"ffffffffffffffff\r\n",
        b"-1\r\n",
        b"\x1f\x8b\x08",
        b"[" * 5000,
    ]
)


@LIVE
@given(data=st.binary(max_size=600))
def test_random_bytes_are_no_http(noisy: Noisy, data: bytes) -> None:
    noisy.require_sound(noisy.send(noisy.ports.http, data))


@LIVE
@given(method=METHODS, path=PATHS, headers=HEADERS, body=BODIES, known=st.booleans(), cut=st.integers(1, 400))
def test_what_is_nearly_http_is_answered_or_cut_off(
    noisy: Noisy, method: bytes, path: bytes, headers: list[tuple[bytes, bytes]], body: bytes, known: bool, cut: int
) -> None:
    lines = [b"%b %b HTTP/1.1" % (method, path), b"host: x", *(b"%b: %b" % header for header in headers)]
    if known:
        lines.append(b"authorization: Bearer " + noisy.node.token.encode())
    whole = b"\r\n".join([*lines, b"", body])
    noisy.require_sound(noisy.send(noisy.ports.http, whole[:cut], whole[cut:]))


@pytest.mark.parametrize(
    "words",
    [
        b"content-length: 34603008\r\n\r\n" + bytes(1 * MIB),
        b"content-length: 99999999999999999999999\r\n\r\nx",
        b"transfer-encoding: chunked\r\n\r\n" + (b"100000\r\n" + bytes(1 * MIB) + b"\r\n") * 34 + b"0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\nfffffffff\r\nx",
        b"x: " + b"x" * (2 * MIB),
        b"x: y\r\n" * 100_000,
    ],
    ids=["length", "absurd length", "chunks", "absurd chunk", "long header", "many headers"],
)
def test_what_is_too_long_for_http_is_refused(noisy: Noisy, words: bytes) -> None:
    head = f"POST {STREAM_URL}/records HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {noisy.node.token}\r\n"
    heard = noisy.send(noisy.ports.http, f"{head}content-type: application/octet-stream\r\n".encode() + words)
    noisy.require_sound(heard)
    assert b"HTTP/1.1 2" not in heard


# --- frames -------------------------------------------------------------------------------------------------------

CODES = st.sampled_from([operation.code for operation in OPERATIONS]) | st.integers(0, 255)
WORDS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted({name for operation in OPERATIONS for name in operation.request.__struct_fields__})
STRANGE = st.dictionaries(st.sampled_from(FIELDS), WORDS, max_size=4)
ITEMS = st.lists(
    st.tuples(st.integers(0, 12), CODES, STRANGE, st.booleans(), st.binary(max_size=120), st.integers(0, 255)),
    max_size=8,
)


@LIVE
@given(data=st.binary(max_size=600), known=st.booleans())
def test_random_bytes_are_no_frames(noisy: Noisy, data: bytes, known: bool) -> None:
    noisy.require_sound(noisy.send(noisy.ports.frames, data, greeting=noisy.hello if known else b""))


@LIVE
@given(items=ITEMS)
def test_frames_of_strange_content_are_answered_or_refused(
    noisy: Noisy, items: list[tuple[int, int, dict[str, object], bool, bytes, int]]
) -> None:
    said = []
    for number, (kind, code, header, addressed, body, flags) in enumerate(items, 2):
        fields = {**{name: NAMES[name] for name in ("tenant", "namespace", "name")}, **header} if addressed else header
        said.append(frame.encode(kind, code, number, msgspec.msgpack.encode(fields), body, flags=flags))
    noisy.require_sound(noisy.send(noisy.ports.frames, *said, greeting=noisy.hello))


@LIVE
@given(
    code=CODES,
    kind=st.sampled_from([FrameKind.HELLO, FrameKind.REQUEST, FrameKind.ACK, FrameKind.CANCEL]),
    field=st.sampled_from(FIELDS),
    text=st.binary(min_size=1, max_size=20),
    depth=st.sampled_from([0, 0, 0, 2000]),
)
def test_text_that_is_no_text_and_depths_without_end_are_refused(
    noisy: Noisy, code: int, kind: int, field: str, text: bytes, depth: int
) -> None:
    """What no encoder writes: a string of any bytes, and arrays in arrays."""
    value = b"\x91" * depth + b"\xd9" + bytes([len(text)]) + text
    addressed = msgspec.msgpack.encode({name: NAMES[name] for name in ("tenant", "namespace", "name") if name != field})
    header = bytes([addressed[0] + 1]) + addressed[1:] + msgspec.msgpack.encode(field) + value
    said = [frame.encode(kind, code, number, header) for number in (2, 3)]
    noisy.require_sound(noisy.send(noisy.ports.frames, *said, greeting=noisy.hello))


@LIVE
@given(items=ITEMS, position=st.integers(0, 2000), value=st.integers(0, 255), drop=st.integers(0, 40))
def test_frames_with_a_wrong_byte_or_a_hole_are_refused(
    noisy: Noisy,
    items: list[tuple[int, int, dict[str, object], bool, bytes, int]],
    position: int,
    value: int,
    drop: int,
) -> None:
    said = bytearray(noisy.hello)
    for number, (_, code, header, _, body, _) in enumerate(items, 2):
        said += frame.encode(FrameKind.REQUEST, code, number, msgspec.msgpack.encode(header), body)
    place = position % len(said)
    said[place : place + drop] = bytes([value])
    noisy.require_sound(noisy.send(noisy.ports.frames, bytes(said)))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    "length, header", [(2**32 - 1, 0), (64 * MIB, 100), (30 * MIB, 2 * MIB), (11, 0), (12, 2**32 - 1)]
)
def test_frames_that_announce_too_much_are_refused_unread(noisy: Noisy, known: bool, length: int, header: int) -> None:
    prefix = PREFIX.pack(length, 7, 1, FrameKind.REQUEST if known else FrameKind.HELLO, 0, 21, header)
    heard = noisy.send(noisy.ports.frames, prefix, bytes(100_000), greeting=noisy.hello if known else b"")
    noisy.require_sound(heard)
