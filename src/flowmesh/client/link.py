"""One connection to a node: requests out, answers matched to them, pushes handed on. It never reconnects."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from itertools import count
from typing import cast

import msgspec

from flowmesh.base.buffers import Buffer
from flowmesh.base.errors import FlowMeshError, TimedOut, Unavailable
from flowmesh.base.limits import FRAME_REPLY_BYTES_MAX
from flowmesh.base.version import VERSION
from flowmesh.client import strangers
from flowmesh.client.address import NodeAddress
from flowmesh.format import frame
from flowmesh.format.frame import CORRELATION_MAX, Frame, FrameDecoder, FrameKind
from flowmesh.operations.frames import Hello, Welcome, error_of

PING_AFTER_S = 20.0
"""A silent connection is asked whether it still lives; three silences, and it does not."""
_WRITE_BUFFER_BYTES = 1024 * 1024
OnPush = Callable[[Frame], None]
_encode = msgspec.msgpack.Encoder().encode
_decode_welcome = msgspec.msgpack.Decoder(Welcome).decode


class LinkLost(TimedOut):
    """The connection ended before the answer came: whether the operation took place is unknown."""


class Link(asyncio.Protocol):
    def __init__(self) -> None:
        self.failure: FlowMeshError | None = None
        """Why this connection is of no use any more."""
        self.writable = asyncio.Event()
        self.writable.set()
        self.first_words = b""
        """What came first, for telling who it is that answers."""
        self.welcome: Welcome
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._decoder = FrameDecoder(FRAME_REPLY_BYTES_MAX, FRAME_REPLY_BYTES_MAX)
        self._numbers = count(1)
        self._pending: dict[int, asyncio.Future[Frame]] = {}
        self._pushes: dict[int, OnPush] = {}
        self._heard_at = self._loop.time()
        self._keeping: asyncio.TimerHandle | None = None
        self._paused = False

    @classmethod
    async def open(cls, address: NodeAddress, token: str) -> Link:
        """A connection that the node has welcomed."""
        loop = asyncio.get_running_loop()
        try:
            _, link = await loop.create_connection(cls, address.host, address.port, ssl=address.tls)
        except ssl.SSLError as error:
            raise strangers.tls_fault(address, error) from error
        except OSError as error:
            raise Unavailable(f"{address} cannot be reached: {error}") from error
        try:
            header = _encode(Hello(token, f"flowmesh-python/{VERSION}"))
            answer = await link.call(FrameKind.HELLO, 0, header)
            link.welcome = _decode_welcome(answer.header)
        except FlowMeshError as error:
            link.abort()
            lost = isinstance(error, LinkLost) and not link.first_words
            raise strangers.stranger(address, link.first_words) or (strangers.silence(address) if lost else error)
        except BaseException:
            link.abort()
            raise
        link._keep_alive()
        return link

    def is_lost(self) -> bool:
        return self.failure is not None

    # --- requests -----------------------------------------------------------------------------------------------

    def call(
        self, kind: int, code: int, header: bytes, body: Buffer = b"", *, flags: int = 0, on_push: OnPush | None = None
    ) -> asyncio.Future[Frame]:
        """Sends a frame; its answer, or the error that is its answer, comes with the future.

        The caller waits for `writable` first where much is sent: what is written goes into a buffer without a bound.
        """
        future: asyncio.Future[Frame] = self._loop.create_future()
        if self.failure is not None:
            future.set_exception(self.failure)
            return future
        correlation = self._next_number()
        self._pending[correlation] = future
        if on_push is not None:
            self._pushes[correlation] = on_push
        self._send(kind, code, correlation, header, body, flags)
        return future

    def tell(self, kind: int, correlation: int, header: bytes = b"") -> None:
        """Sends a frame that has no answer."""
        if self.failure is None:
            self._send(kind, 0, correlation, header, b"", 0)

    def _send(self, kind: int, code: int, correlation: int, header: bytes, body: Buffer, flags: int) -> None:
        head = frame.encode_head(kind, code, correlation, header, len(body), flags=flags)
        if len(body) > _WRITE_BUFFER_BYTES // 16:
            self._transport.write(head)
            self._transport.write(body)
        else:
            self._transport.write(b"".join((head, body)))

    def _next_number(self) -> int:
        while True:
            number = next(self._numbers) % CORRELATION_MAX + 1
            if number not in self._pending and number not in self._pushes:
                return number

    # --- answers ------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        if not self.first_words:
            self.first_words = data[: strangers.FIRST_WORDS_BYTES]
        for item in self._decoder.feed(data):
            if isinstance(item, Frame):
                self._take(item)
        if self._decoder.failure is not None:
            self._lose(self._decoder.failure)

    def _take(self, item: Frame) -> None:
        match item.kind:
            case FrameKind.REPLY:
                future = self._pending.pop(item.correlation, None)
                if future is not None and not future.done():
                    future.set_result(item)
            case FrameKind.PUSH:
                push = self._pushes.get(item.correlation)
                if push is not None:
                    push(item)
            case FrameKind.END:
                self._finish(item)
            case FrameKind.ERROR if item.correlation == 0:
                self._lose(error_of(item.header).error)
            case FrameKind.ERROR:
                self._pushes.pop(item.correlation, None)
                future = self._pending.pop(item.correlation, None)
                if future is not None and not future.done():
                    future.set_exception(error_of(item.header).error)
            case _:
                pass  # a pong has done its work by being heard

    def _finish(self, item: Frame) -> None:
        future = self._pending.pop(item.correlation, None)
        if future is not None and not future.done():
            future.set_result(item)
        push = self._pushes.pop(item.correlation, None)
        if push is not None:
            push(item)

    # --- the transport's calls ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(_WRITE_BUFFER_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(LinkLost(f"the connection was lost{f': {exc}' if exc else ''}; the outcome is unknown."))

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def pause_reading(self, paused: bool) -> None:
        """For a consumer that is behind: what the node sends then waits there."""
        if paused != self._paused and self.failure is None:
            self._paused = paused
            if paused:
                self._transport.pause_reading()
            else:
                self._heard_at = self._loop.time()
                self._transport.resume_reading()

    def _lose(self, failure: FlowMeshError) -> None:
        """Everybody who waits on this connection is told once."""
        if self.failure is not None:
            return
        self.failure = failure
        if self._keeping is not None:
            self._keeping.cancel()
        pending, self._pending = self._pending, {}
        pushes, self._pushes = self._pushes, {}
        for future in pending.values():
            if not future.done():
                future.set_exception(failure)
                future.exception()  # whoever gave up waiting must not be warned of it
        for correlation, push in pushes.items():
            push(Frame(FrameKind.END, 0, 0, correlation, b"", b""))
        self.writable.set()
        self._transport.close()

    def abort(self) -> None:
        self._lose(LinkLost("the connection was closed here; the outcome is unknown."))
        self._transport.abort()

    # --- staying alive ------------------------------------------------------------------------------------------

    def _keep_alive(self) -> None:
        """A peer that is gone without a word would otherwise be waited for until the system notices, which is long."""
        if self.failure is not None:
            return
        silent_s = self._loop.time() - self._heard_at
        if silent_s > 3 * PING_AFTER_S and not self._paused:
            self._lose(LinkLost("nothing was heard from the node for a minute; the outcome is unknown."))
            self._transport.abort()
            return
        if silent_s > PING_AFTER_S / 2:
            self._send(FrameKind.PING, 0, 0, b"", b"", 0)
        self._keeping = self._loop.call_later(PING_AFTER_S, self._keep_alive)
