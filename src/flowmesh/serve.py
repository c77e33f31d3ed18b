"""A running node: event loop, writer thread, readers and wires put together, started and stopped in the right order."""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

from flowmesh.api.admission import Admission
from flowmesh.api.frames.server import FrameServer
from flowmesh.api.http.server import HttpServer
from flowmesh.api.observer import Observer
from flowmesh.api.room import ConnectionRoom
from flowmesh.api.service import Service
from flowmesh.base.errors import BadRequest, FlowMeshError, Unavailable
from flowmesh.host.archiving import ArchiveSchedule, hold_unarchived
from flowmesh.host.clock import RealClock
from flowmesh.host.descriptors import descriptor_limit
from flowmesh.host.disk import RealDisk
from flowmesh.host.entropy import RealEntropy
from flowmesh.host.secrets import write_secret
from flowmesh.host.settings import Settings, require_safe
from flowmesh.host.writer import WriterThread, deliver_here
from flowmesh.log.commit import Completion
from flowmesh.node.node import Node
from flowmesh.node.partition import StreamPartition
from flowmesh.observability.audit import AuditLog
from flowmesh.observability.metrics import Metrics
from flowmesh.observability.node_reader import NodeReader
from flowmesh.observability.rates import SAMPLE_EVERY_NS

T = TypeVar("T")
SWITCH_INTERVAL_S = 0.0005
"""How long one thread may keep the interpreter while another waits for it: an fsync's end must not wait 5 ms."""
TOKEN_FILE = "admin.token"
logger = logging.getLogger("flowmesh.node")


class RunningNode:
    """Start it on a running loop; `stop` drains and closes everything. May be started once and stopped once.

    A start that fails leaves nothing behind: no port, no thread, no lock.
    """

    def __init__(self, settings: Settings, observer: Observer | None = None) -> None:
        self.settings = settings
        self.observer = observer if observer is not None else Metrics()
        self.token_file = Path(settings.data_dir) / TOKEN_FILE
        self.clock = RealClock()
        self._stopping = AsyncExitStack()
        self._wires: list[HttpServer | FrameServer] = []
        self._patience_s = 0.0
        """For requests that are under way; a node that never got to run has none."""
        self._upkeep: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        require_safe(self.settings)
        context = tls_context(self.settings)
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        async with AsyncExitStack() as started:
            await self._start_node(started)
            metrics = self.observer if isinstance(self.observer, Metrics) else None
            audit = AuditLog(self.clock, metrics)
            self.service = Service(self.node, self.writer, self.readers, self.clock)
            self.service.audit = audit.changed
            self.admission = Admission(self.node.catalog.machine, self.clock, audit.denied)
            room = ConnectionRoom(descriptor_limit())
            self.http = HttpServer(self.service, self.admission, self.observer, room)
            self.frames = FrameServer(self.service, self.admission, self.observer, room)
            started.push_async_callback(self._stop_wires)
            await self._listen("http", self.http, self.settings.http_port, context)
            await self._listen("frames", self.frames, self.settings.frames_port, context)
            self._stopping = started.pop_all()
        self._upkeep = [asyncio.create_task(self._apply_retention())]
        if self.settings.archive_location is not None:
            self._upkeep.append(asyncio.create_task(self._schedule().run()))
        if metrics is not None:
            metrics.node = NodeReader(self.node, self.writer, self.clock, asyncio.get_running_loop())
            self._upkeep.append(asyncio.create_task(self._sample(metrics.node)))

    async def _start_node(self, started: AsyncExitStack) -> None:
        """The threads and the open logs. What was started is stopped in the opposite order."""
        loop = asyncio.get_running_loop()

        def deliver(completions: Sequence[Completion]) -> None:
            loop.call_soon_threadsafe(deliver_here, completions)

        def tell(partition: StreamPartition) -> None:
            loop.call_soon_threadsafe(partition.published)

        self.writer = WriterThread(self.clock, deliver)
        started.push_async_callback(self._off_loop, self.writer.close)
        self.readers = ThreadPoolExecutor(self.settings.reader_threads, thread_name_prefix="flowmesh-reader")
        started.push_async_callback(self._off_loop, partial(self.readers.shutdown, wait=True))
        self.node = await self._on_writer(self._open)
        started.push_async_callback(self._on_writer, self.node.close)
        await self._on_writer(partial(self.node.watch, tell))

    def _open(self) -> Node:
        return Node.open(
            RealDisk(),
            self.clock,
            RealEntropy(),
            self.settings.data_dir,
            partial(write_secret, self.token_file),
            self.settings.disk_reserve_bytes,
        )

    async def _listen(
        self, wire: str, server: HttpServer | FrameServer, port: int, context: ssl.SSLContext | None
    ) -> None:
        try:
            await server.start(self.settings.host, port, context)
        except OSError as error:
            raise Unavailable(
                f"cannot listen on {self.settings.host}:{port} for {wire}: {error.strerror or error}.",
                field=f"{wire}_port",
                hint=f"Stop what listens there, or choose another {wire}_port; 0 takes a free one.",
            )
        self._wires.append(server)

    async def _stop_wires(self) -> None:
        await asyncio.gather(*(wire.stop(self._patience_s) for wire in self._wires))

    # --- while it runs ------------------------------------------------------------------------------------------

    async def _apply_retention(self) -> None:
        while True:
            await asyncio.sleep(self.settings.retention_interval_s)
            try:
                if self.settings.archive_location is not None:
                    await self._on_writer(partial(hold_unarchived, self.settings, self.node))
                await self._on_writer(self.node.trim)
            except Exception:
                logger.exception("retention could not be applied; it is tried again")

    def _schedule(self) -> ArchiveSchedule:
        scheme = "flowmeshs" if self.settings.tls_certificate is not None else "flowmesh"
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        url = f"{scheme}://{host}:{self.frames.port}"
        return ArchiveSchedule(
            self.settings, url, str(self.token_file), lambda: ["/".join(key) for key in self.node.streams]
        )

    async def _sample(self, reader: NodeReader) -> None:
        while True:
            await asyncio.sleep(SAMPLE_EVERY_NS / 1e9)
            reader.sample()

    # --- ending -------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stops accepting, ends long polls, lets requests finish, and closes every log cleanly."""
        for task in self._upkeep:
            task.cancel()
        await asyncio.gather(*self._upkeep, return_exceptions=True)
        self.service.drain()
        self._patience_s = self.settings.drain_timeout_s
        await self._stopping.aclose()

    async def _on_writer(self, function: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self.writer.call(function))

    async def _off_loop(self, function: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(None, function)


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for name, place in (("tls_certificate", settings.tls_certificate), ("tls_key", settings.tls_key)):
        try:
            with open(place, "rb"):
                pass
        except OSError as error:
            raise BadRequest(f"{name} {place!r} cannot be read: {error.strerror or error}.", field=name)
    try:
        # Without a password function an encrypted key would make OpenSSL ask on the terminal.
        context.load_cert_chain(settings.tls_certificate, settings.tls_key, password=_no_password)
    except (ssl.SSLError, FlowMeshError) as error:
        why = error.reason if isinstance(error, ssl.SSLError) and error.reason else str(error)
        raise BadRequest(
            f"TLS cannot be set up from {settings.tls_certificate!r} and {settings.tls_key!r}: {why}.",
            field="tls_certificate",
            hint="Both have to be PEM files, the key not encrypted, and belong to each other.",
        )
    return context


def _no_password() -> str:
    raise BadRequest("the key is encrypted", field="tls_key")
