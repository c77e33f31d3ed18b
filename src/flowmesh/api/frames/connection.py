"""One connection: bytes in, requests dispatched, bytes out, every sum on it bounded. The work is done elsewhere."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import cast

import msgspec

from flowmesh.api.admission import Principal
from flowmesh.api.frames import requests
from flowmesh.api.frames.appends import AppendDesk
from flowmesh.api.frames.batches import checked_batch, is_heavy
from flowmesh.api.frames.caller import Work
from flowmesh.api.frames.context import WIRE, WireContext, presentable
from flowmesh.api.frames.cursors import Cursors
from flowmesh.api.frames.headers import decoded
from flowmesh.api.frames.replies import encode_message, error
from flowmesh.api.frames.subscriptions import Subscriptions
from flowmesh.api.frames.targets import APPEND, Target, Targets
from flowmesh.base import limits
from flowmesh.base.errors import BadRequest, FlowMeshError, TooManyRequests, Unauthenticated, Unavailable
from flowmesh.base.version import VERSION
from flowmesh.format import frame
from flowmesh.format.batch import Batch
from flowmesh.format.frame import Frame, FrameDecoder, FrameFlag, FrameKind, FrameRun
from flowmesh.operations.frames import PROTOCOL, Hello, Welcome

_REQUEST, _APPEND = int(FrameKind.REQUEST), APPEND.code
_BATCH = int(FrameFlag.BATCH)
_LINGER_S = 2.0
"""How long a connection that ends stays half open, so that its last words arrive."""
_decode_hello = msgspec.msgpack.Decoder(Hello).decode


class FrameConnection(asyncio.Protocol):
    def __init__(self, context: WireContext) -> None:
        self.context = context
        self.loop = asyncio.get_running_loop()
        self.peer = ""
        self.principal: Principal | None = None
        self.opened_at = self.heard_at = self.loop.time()
        self.unfinished_since: float | None = None
        self.in_flight = 0
        self.writable = asyncio.Event()
        self.writable.set()
        self.reading = asyncio.Semaphore(limits.READS_PER_CONNECTION_MAX)
        self.cursors = Cursors()
        self._transport: asyncio.Transport
        self._decoder = FrameDecoder(limits.FRAME_HELLO_BYTES_MAX, limits.FRAME_HELLO_BYTES_MAX)
        self._desk = AppendDesk(context, self)
        self._targets: Targets
        self._subscriptions = Subscriptions(self)
        self._waiting: dict[int, asyncio.Task[None]] = {}
        """Reads that may be cancelled, by their correlation id."""
        self._backlog: deque[Frame | FrameRun] = deque()
        self._checking: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight_bytes = 0
        self._out: list[bytes] = []
        self._paused = False
        self._ended = False

    # --- the transport's calls ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        self._transport.set_write_buffer_limits(limits.WRITE_BUFFER_BYTES, limits.WRITE_BUFFER_BYTES // 4)
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if name else "local"
        self._targets = Targets(self.context.service, self.context.admission, self.peer)
        self.context.connections.add(self)
        self.context.observer.connections(WIRE, 1)
        has_room = self.context.room.enter()
        if self.context.room.is_crowded:
            self._ended = True
            self._transport.abort()
        elif not has_room or len(self.context.connections) > self.context.connections_max:
            self.end(TooManyRequests("this node holds as many connections as it may.", hint="Try again later."))

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._ended = True
        self.context.connections.discard(self)
        self.context.observer.connections(WIRE, -1)
        self.context.room.leave()
        self.context.unfinished_bytes -= self._decoder.held_bytes
        self._backlog.clear()
        self.writable.set()
        self._subscriptions.close()
        for task in list(self._tasks):
            task.cancel()

    def pause_writing(self) -> None:
        self.writable.clear()
        self._regulate()

    def resume_writing(self) -> None:
        self.writable.set()
        self._regulate()

    def eof_received(self) -> bool:
        return False

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self.heard_at = self.loop.time()
        held = self._decoder.held_bytes
        found = self._decoder.feed(data)
        self._backlog.extend(found)
        try:
            self._note_unfinished(self._decoder.held_bytes - held, bool(found))
            if self.principal is not None:
                self.principal = self.context.admission.still_good(self.principal)
            self._work()
            if self._decoder.failure is not None and not self._backlog:
                raise self._decoder.failure
        except FlowMeshError as fault:
            self.end(fault)

    # --- requests -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Takes what has arrived, until something has to be looked at elsewhere first: appends keep their order."""
        backlog = self._backlog
        try:
            while backlog and self._checking is None:
                self._take(backlog.popleft())
        finally:
            self._desk.submit()
            self._regulate()

    def _take(self, item: Frame | FrameRun) -> None:
        principal = self.principal
        if principal is None:
            self._greet(item)
        elif isinstance(item, FrameRun):
            self._take_run(item, principal)
        elif item.kind == _REQUEST and item.code == _APPEND:
            self._in_flight_bytes += len(item.body) + len(item.header)
            self.in_flight += 1
            self._append(item, principal)
        elif item.kind == _REQUEST:
            self._start(item, principal)
        else:
            self._control(item)

    def _take_run(self, run: FrameRun, principal: Principal) -> None:
        if run.code == _APPEND and not run.flags & _BATCH:
            try:
                target = self._targets.of(run.header, principal)
            except FlowMeshError:
                target = None
            if target is not None and target.is_plain:
                self.in_flight += len(run.bodies)
                self._in_flight_bytes += len(run.bodies) * (len(run.bodies[0]) + len(run.header))
                self._desk.add_run(run, target)
                return
        self._backlog.extendleft(reversed(run.frames()))

    def _append(self, item: Frame, principal: Principal) -> None:
        try:
            target = self._targets.of(item.header, principal)
            if not item.flags & _BATCH:
                self._desk.add_record(item, target)
            elif not target.is_plain:
                raise BadRequest("a batch brings its own keys, headers and times; leave them out of the header.")
            elif is_heavy(item.body):
                self._desk.submit()
                self._checking = self.spawn(self._check_elsewhere(item, target))
            else:
                self._desk.add_batch(checked_batch(item.body), item, target)
        except Exception as fault:  # noqa: BLE001 (whoever asked is told, and the log)
            self._refuse(item, presentable(fault))

    async def _check_elsewhere(self, item: Frame, target: Target) -> None:
        """A large batch, or one to be unfolded, is checked on another thread; what came after it waits."""
        found: Batch | FlowMeshError
        try:
            found = await self.context.service.compute(checked_batch, item.body)
        except Exception as fault:  # noqa: BLE001 (whoever asked is told, and the log)
            found = presentable(fault)
        self._checking = None
        if isinstance(found, Batch):
            self._desk.add_batch(found, item, target)
        else:
            self._refuse(item, found)
        self._resume_work()

    def _resume_work(self) -> None:
        try:
            self._work()
            if self._decoder.failure is not None and not self._backlog:
                raise self._decoder.failure
        except FlowMeshError as fault:
            self.end(fault)

    def _refuse(self, item: Frame, fault: FlowMeshError) -> None:
        self.send_soon(error(item.code, item.correlation, fault))
        self.settled(1, len(item.body) + len(item.header))

    def _start(self, item: Frame, principal: Principal) -> None:
        """Runs a request beside the others."""
        self.in_flight += 1
        size = len(item.body) + len(item.header)
        self._in_flight_bytes += size
        task = self.spawn(requests.answer(self, self._subscriptions, item, principal))
        task.add_done_callback(lambda _: self.settled(1, size))
        if item.code in requests.CANCELLABLE:
            self._waiting[item.correlation] = task
            task.add_done_callback(lambda _: self._waiting.pop(item.correlation, None))

    def spawn(self, work: Work) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _control(self, item: Frame) -> None:
        match item.kind:
            case FrameKind.PING:
                self.send_soon(frame.encode(FrameKind.PONG, 0, item.correlation))
            case FrameKind.ACK:
                self._subscriptions.acknowledge(item)
            case FrameKind.CANCEL:
                self._cancel(item.correlation)
            case FrameKind.HELLO:
                self._greet(item)
            case _:
                raise BadRequest(f"a client does not send frames of kind {item.kind}.")

    def _cancel(self, correlation: int) -> None:
        """Ends a subscription, or a read that waits, and says so; what is answered already needs nothing."""
        if self._subscriptions.cancel(correlation):
            return
        task = self._waiting.pop(correlation, None)
        if task is not None:
            task.cancel()
            self.send_soon(frame.encode(FrameKind.END, requests.READ.code, correlation))

    def _greet(self, item: Frame | FrameRun) -> None:
        if isinstance(item, FrameRun) or item.kind != FrameKind.HELLO:
            raise Unauthenticated("the first frame has to be a hello with a token.", hint="See docs/formats/frame.md.")
        hello = decoded(_decode_hello, item.header, "hello")
        self.principal = self.context.admission.authenticate(hello.token, self.peer)
        self._decoder.frame_bytes_max = limits.FRAME_BYTES_MAX
        self._decoder.header_bytes_max = limits.FRAME_HEADER_BYTES_MAX
        welcome = Welcome(
            node=self.context.service.node.id,
            version=VERSION,
            protocol=PROTOCOL,
            frame_bytes_max=limits.FRAME_BYTES_MAX,
            in_flight_max=limits.IN_FLIGHT_PER_CONNECTION_MAX,
            idle_ms=self.context.idle_ms,
        )
        self.send_soon(frame.encode(FrameKind.REPLY, 0, item.correlation, encode_message(welcome)))

    # --- bytes out, and what is under way -----------------------------------------------------------------------

    def send_soon(self, data: bytes) -> None:
        """Gathers what one turn of the loop brings, for one write."""
        if not self._out:
            self.loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and not self._transport.is_closing():
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def send_pieces(self, pieces: list[bytes | memoryview]) -> None:
        """Writes at once, after what was gathered; for bodies that are not worth a copy."""
        self._flush()
        if not self._transport.is_closing():
            self._transport.writelines(pieces)

    def settled(self, requests: int, size: int) -> None:
        self.in_flight -= requests
        self._in_flight_bytes -= size
        if self._paused:
            self._regulate()

    def _regulate(self) -> None:
        """Stops reading while too much is under way, and goes on when there is room again."""
        full = (
            self._checking is not None
            or not self.writable.is_set()
            or self.in_flight >= limits.IN_FLIGHT_PER_CONNECTION_MAX
            or self._in_flight_bytes >= limits.IN_FLIGHT_BYTES_PER_CONNECTION_MAX
        )
        if full == self._paused or self._transport.is_closing():
            return
        self._paused = full
        if full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _note_unfinished(self, change: int, progress: bool) -> None:
        if change:
            self.context.hold(change)
        if not self._decoder.held_bytes:
            self.unfinished_since = None
        elif progress or self.unfinished_since is None:
            self.unfinished_since = self.heard_at

    # --- the end ------------------------------------------------------------------------------------------------

    def end(self, fault: FlowMeshError | None = None) -> None:
        """Says why, takes nothing more, and closes once that has arrived or after a moment."""
        if self._ended:
            return
        self._ended = True
        self._backlog.clear()
        self._subscriptions.close()
        for task in list(self._tasks):
            task.cancel()
        if fault is not None:
            self._out.append(error(0, 0, fault))
        self._flush()
        if self._transport.can_write_eof() and not self._transport.is_closing():
            self._transport.write_eof()
            self._resume_to_drain()
            self.loop.call_later(_LINGER_S, self._transport.abort)
        else:
            self._transport.close()
            self.loop.call_later(_LINGER_S, self._transport.abort)

    def _resume_to_drain(self) -> None:
        """What still arrives is thrown away: closing with unread bytes would take the last words from the peer."""
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    def say_goodbye(self) -> None:
        self.end(Unavailable("this node is stopping.", hint="Connect again in a moment."))

    @property
    def ended(self) -> bool:
        return self._ended

    def abort(self) -> None:
        self._transport.abort()
