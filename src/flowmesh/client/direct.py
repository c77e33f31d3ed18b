"""A blocking connection to a node, for processes without an event loop: Spark's tasks. Requests are pipelined by hand.

It never reconnects and never repeats anything: whoever uses it knows what may be sent again. One thread at a time.
"""

from __future__ import annotations

import socket
import ssl
from io import BufferedReader
from itertools import count
from types import TracebackType
from typing import Self, TypeVar, cast

import msgspec

from flowmesh.base.buffers import Buffer
from flowmesh.base.errors import Closed, FlowMeshError, Unavailable
from flowmesh.base.limits import FRAME_REPLY_BYTES_MAX
from flowmesh.base.version import VERSION
from flowmesh.client import strangers
from flowmesh.client.address import NodeAddress
from flowmesh.client.link import LinkLost
from flowmesh.client.session import TIMEOUT_S
from flowmesh.format import frame
from flowmesh.format.frame import CORRELATION_MAX, Frame, FrameKind
from flowmesh.operations.frames import Hello, Welcome, error_of
from flowmesh.operations.messages import Reply, Request
from flowmesh.operations.table import BY_NAME

ReplyT = TypeVar("ReplyT", bound=Reply)
_JOIN_BYTES = 64 * 1024
"""Smaller bodies go out in one piece with their header; larger ones are not worth the copy."""
_READ_BUFFER_BYTES = 64 * 1024
_encode = msgspec.msgpack.Encoder().encode
_decode_welcome = msgspec.msgpack.Decoder(Welcome).decode


class DirectConnection:
    """Open and welcomed once it is made. `timeout_s` bounds each wait for the node: to connect, to send, to hear."""

    def __init__(self, address: NodeAddress, token: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.address = address
        self.failure: FlowMeshError | None = None
        """Why this connection is of no use any more."""
        self._numbers = count(1)
        self._awaited: set[int] = set()
        self._early: dict[int, Frame] = {}
        """Answers that came before the one that was waited for; never more than what was sent."""
        self._socket = _connected(address, timeout_s)
        self._stream = cast("BufferedReader", self._socket.makefile("rb", buffering=_READ_BUFFER_BYTES))
        try:
            header = _encode(Hello(token, f"flowmesh-python/{VERSION}"))
            self.welcome = _decode_welcome(self.receive(self._send(FrameKind.HELLO, 0, header, b"", 0)).header)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; what is under way has an unknown outcome."""
        self.failure = self.failure or Closed("this connection is closed.")
        self._stream.close()
        self._socket.close()

    @property
    def in_flight(self) -> int:
        """Requests whose answers were not taken yet."""
        return len(self._awaited)

    # --- requests -----------------------------------------------------------------------------------------------

    def request(
        self, name: str, request: Request, reply: type[ReplyT], *, body: Buffer = b"", flags: int = 0
    ) -> ReplyT:
        """Runs one operation and waits for its answer."""
        return msgspec.msgpack.decode(self.receive(self.send(name, request, body, flags=flags)).header, type=reply)

    def send(self, name: str, request: Request, body: Buffer = b"", *, flags: int = 0) -> int:
        """Sends a request without waiting; the number that it returns is for `receive`."""
        return self.send_encoded(BY_NAME[name].code, _encode(request), body, flags=flags)

    def send_encoded(self, code: int, header: bytes, body: Buffer = b"", *, flags: int = 0) -> int:
        """`send` for a header that is encoded once and used often."""
        return self._send(FrameKind.REQUEST, code, header, body, flags)

    def _send(self, kind: int, code: int, header: bytes, body: Buffer, flags: int) -> int:
        if self.failure is not None:
            raise self.failure
        number = next(self._numbers) % CORRELATION_MAX + 1
        head = frame.encode_head(kind, code, number, header, len(body), flags=flags)
        try:
            if len(body) < _JOIN_BYTES:
                self._socket.sendall(b"".join((head, body)))
            else:
                self._socket.sendall(head)
                self._socket.sendall(body)
        except OSError as error:
            raise self._lost(error) from error
        self._awaited.add(number)
        return number

    # --- answers ------------------------------------------------------------------------------------------------

    def receive(self, number: int) -> Frame:
        """Waits for the answer to one request; an error that is the answer is raised. Each may be taken once."""
        assert number in self._awaited, "this request was not sent here, or its answer was taken already"
        while number not in self._early:
            found = self._next_frame()
            if found.correlation in self._awaited and found.kind in (FrameKind.REPLY, FrameKind.ERROR):
                self._early[found.correlation] = found
            elif found.kind == FrameKind.ERROR and found.correlation == 0:
                self.failure = error_of(found.header).error
                raise self.failure
        self._awaited.discard(number)
        answer = self._early.pop(number)
        if answer.kind == FrameKind.ERROR:
            raise error_of(answer.header).error
        return answer

    def _next_frame(self) -> Frame:
        """The next frame, its body received straight into memory of its own, which Arrow may keep."""
        if self.failure is not None:
            raise self.failure
        prefix = memoryview(b"")
        try:
            prefix = self._exactly(frame.PREFIX_SIZE)
            length, correlation, version, kind, flags, code, header_bytes = frame.PREFIX.unpack(prefix)
            frame.require(length, version, kind, header_bytes, FRAME_REPLY_BYTES_MAX, FRAME_REPLY_BYTES_MAX)
            header = bytes(self._exactly(header_bytes))
            body = self._exactly(frame.body_size(length, header_bytes))
        except OSError as error:
            raise self._lost(error) from error
        except FlowMeshError as error:
            self.failure = strangers.stranger(self.address, bytes(prefix)) or error
            raise self.failure
        return Frame(kind, flags, code, correlation, header, body)

    def _exactly(self, size: int) -> memoryview:
        target = memoryview(bytearray(size))
        # The buffered reader fills the target before it returns, unless the connection ends.
        if size and self._stream.readinto(target) < size:
            raise self._lost(None)
        return target

    def _lost(self, error: OSError | None) -> FlowMeshError:
        if self.failure is None:
            self.failure = LinkLost(f"the connection was lost{f': {error}' if error else ''}; the outcome is unknown.")
        return self.failure


def _connected(address: NodeAddress, timeout_s: float) -> socket.socket:
    try:
        plain = socket.create_connection((address.host, address.port), timeout=timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.tls is None:
            return plain
        try:
            return address.tls.wrap_socket(plain, server_hostname=address.host)
        except BaseException:
            plain.close()
            raise
    except ssl.SSLError as error:
        raise strangers.tls_fault(address, error) from error
    except OSError as error:
        raise Unavailable(f"{address} cannot be reached: {error}") from error
