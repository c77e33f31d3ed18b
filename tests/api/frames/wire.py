"""A client of the frames wire that does what a test tells it, and nothing by itself: a socket and a decoder."""

from __future__ import annotations

import socket
from collections import deque
from types import TracebackType
from typing import Any, Self

import msgspec

from flowmesh.base.limits import FRAME_REPLY_BYTES_MAX
from flowmesh.format import frame
from flowmesh.format.frame import Frame, FrameDecoder, FrameKind
from flowmesh.operations.table import BY_NAME

PLACE: dict[str, Any] = {"tenant": "default", "namespace": "default"}
PATIENCE_S = 20.0


class Ended(Exception):
    """The node closed the connection."""


class Wire:
    def __init__(self, port: int, token: str | None = None, *, source: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S, source_address=(source, 0))
        self._decoder = FrameDecoder(FRAME_REPLY_BYTES_MAX, FRAME_REPLY_BYTES_MAX)
        self._arrived: deque[Frame] = deque()
        self._number = 0
        if token is not None:
            self.send(FrameKind.HELLO, 0, {"token": token})
            assert self.receive().kind == FrameKind.REPLY

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(
        self,
        kind: int,
        code: int,
        header: object = None,
        body: bytes = b"",
        *,
        flags: int = 0,
        number: int | None = None,
    ) -> int:
        """Sends a frame and returns its correlation id."""
        if number is None:
            self._number += 1
            number = self._number
        data = b"" if header is None else msgspec.msgpack.encode(header)
        self.socket.sendall(frame.encode(kind, code, number, data, body, flags=flags))
        return number

    def ask(self, operation: str, body: bytes = b"", /, *, flags: int = 0, **fields: Any) -> int:
        return self.send(FrameKind.REQUEST, BY_NAME[operation].code, fields, body, flags=flags)

    def receive(self) -> Frame:
        while not self._arrived:
            data = self.socket.recv(1 << 18)
            if not data:
                raise Ended
            found = self._decoder.feed(data)
            assert self._decoder.failure is None
            self._arrived.extend(item for item in found if isinstance(item, Frame))
        return self._arrived.popleft()

    def call(self, operation: str, body: bytes = b"", /, *, flags: int = 0, **fields: Any) -> Any:
        """The decoded reply of an operation, or its error."""
        number = self.ask(operation, body, flags=flags, **fields)
        answer = self.receive()
        assert answer.correlation == number
        return content(answer)

    def create(self, name: str, **fields: Any) -> None:
        assert "code" not in self.call("stream.create", **PLACE, name=name, **fields)

    def last_words(self) -> Any:
        """The error that ends the connection."""
        while True:
            answer = self.receive()
            if answer.kind == FrameKind.ERROR and answer.correlation == 0:
                try:
                    self.receive()
                except (Ended, ConnectionError):
                    return content(answer)
                raise AssertionError("the connection goes on after its last words")


def content(answer: Frame) -> Any:
    return msgspec.msgpack.decode(answer.header) if answer.header else None
