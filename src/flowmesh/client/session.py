"""A connection that comes back: it is opened when it is needed, and opened again with growing, random pauses."""

from __future__ import annotations

import asyncio
import random
from typing import TypeVar

import msgspec

from flowmesh.base.buffers import Buffer
from flowmesh.base.errors import Closed, FlowMeshError, TimedOut, Unavailable
from flowmesh.client.address import NodeAddress
from flowmesh.client.link import Link, OnPush
from flowmesh.format.frame import Frame, FrameKind
from flowmesh.operations.messages import Reply, Request
from flowmesh.operations.table import BY_NAME

ReplyT = TypeVar("ReplyT", bound=Reply)
PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 2.0
TIMEOUT_S = 30.0
IN_FLIGHT_MAX = 1000
"""Requests of one session that may be under way; more wait their turn."""
_encode = msgspec.msgpack.Encoder().encode


class Pauses:
    """Exponential, with full jitter, so that clients that lost their node together do not return together."""

    def __init__(self) -> None:
        self._limit_s = PAUSE_FIRST_S

    async def pause(self) -> None:
        await asyncio.sleep(random.uniform(0, self._limit_s))
        self._limit_s = min(2 * self._limit_s, PAUSE_MAX_S)

    def reset(self) -> None:
        self._limit_s = PAUSE_FIRST_S


class Session:
    def __init__(self, address: NodeAddress, token: str, timeout_s: float = TIMEOUT_S) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self._token = token
        self._link: Link | None = None
        self._opening = asyncio.Lock()
        self._pauses = Pauses()
        self._turns = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._closed = False
        self._trouble = "no answer."
        self._siblings: set[Session] = set()

    def sibling(self) -> Session:
        """The same node and token over a connection of its own, which ends with this one at the latest."""
        self._siblings = {each for each in self._siblings if not each._closed}
        made = Session(self.address, self._token, self.timeout_s)
        self._siblings.add(made)
        return made

    async def link(self) -> Link:
        """The connection that is open, or a new one. Tries until it succeeds: the caller says how long it may take."""
        async with self._opening:
            while True:
                if self._closed:
                    if self._link is not None:
                        self._link.abort()  # opened while `close` was under way, which could not know of it
                    raise Closed("this client is closed.")
                if self._link is not None and self._link.failure is None:
                    return self._link
                try:
                    link = await Link.open(self.address, self._token)
                except (Unavailable, TimedOut) as error:  # nothing was asked yet, so there is nothing to be unsure of
                    self._trouble = str(error)
                    await self._pauses.pause()
                    continue
                self._link = link
                self._pauses.reset()

    async def open(self) -> None:
        """`link`, within the time of one request."""
        try:
            async with asyncio.timeout(self.timeout_s):
                await self.link()
        except TimeoutError:
            raise self._unreachable(self.timeout_s) from None

    def _unreachable(self, patience_s: float) -> Unavailable:
        return Unavailable(
            f"{self.address} could not be reached within {patience_s:g} s, and nothing was sent: {self._trouble}"
        )

    async def request(
        self,
        name: str,
        request: Request,
        reply: type[ReplyT],
        *,
        body: Buffer = b"",
        flags: int = 0,
        timeout_s: float | None = None,
        repeatable: bool = False,
    ) -> ReplyT:
        """Runs an operation. One that is `repeatable` changes nothing, and is asked again when a connection is lost."""
        answer = await self.call(name, request, body=body, flags=flags, timeout_s=timeout_s, repeatable=repeatable)
        return msgspec.msgpack.decode(answer.header, type=reply)

    async def call(
        self,
        name: str,
        request: Request,
        *,
        body: Buffer = b"",
        flags: int = 0,
        timeout_s: float | None = None,
        repeatable: bool = False,
        on_push: OnPush | None = None,
    ) -> Frame:
        code, header = BY_NAME[name].code, _encode(request)
        patience_s = self.timeout_s if timeout_s is None else timeout_s
        sent = False
        try:
            async with asyncio.timeout(patience_s), self._turns:
                while True:
                    link = await self.link()
                    await link.writable.wait()
                    if link.is_lost():
                        continue
                    sent = True
                    try:
                        return await link.call(FrameKind.REQUEST, code, header, body, flags=flags, on_push=on_push)
                    except FlowMeshError:
                        if not link.is_lost() or not repeatable or self._closed:
                            raise
                        await self._pauses.pause()
        except TimeoutError:
            if sent:
                raise TimedOut(f"{name}: no answer within {patience_s:g} s; the outcome is unknown.") from None
            raise self._unreachable(patience_s) from None

    async def close(self) -> None:
        self._closed = True
        for each in self._siblings:
            await each.close()
        if self._link is not None:
            self._link.abort()
            await asyncio.sleep(0)
