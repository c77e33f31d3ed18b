"""What all connections of one frame server share: the node's service, the way in, and the sums that are bounded."""

from __future__ import annotations

import logging
import time
from typing import Protocol

from flowmesh.api.admission import Admission, Principal
from flowmesh.api.observer import Observer
from flowmesh.api.room import ConnectionRoom
from flowmesh.api.service import Service
from flowmesh.base import limits
from flowmesh.base.errors import FlowMeshError, Internal, Unavailable

WIRE = "frames"
logger = logging.getLogger("flowmesh.frames")


class Watched(Protocol):
    """A connection, as the server sees it: whether it keeps its deadlines, and how it is sent home."""

    principal: Principal | None
    opened_at: float
    heard_at: float
    unfinished_since: float | None
    in_flight: int

    @property
    def ended(self) -> bool: ...

    def end(self, fault: FlowMeshError | None = None) -> None: ...

    def say_goodbye(self) -> None: ...

    def abort(self) -> None: ...


class WireContext:
    def __init__(self, service: Service, admission: Admission, observer: Observer, room: ConnectionRoom) -> None:
        self.service = service
        self.admission = admission
        self.observer = observer
        self.room = room
        self.connections: set[Watched] = set()
        self.unfinished_bytes = 0
        """Held by all connections together of frames that are not whole yet."""
        self.connections_max = limits.CONNECTIONS_MAX
        self.idle_ms = limits.FRAME_IDLE_MS
        self.hello_ms = limits.FRAME_HELLO_MS
        self.unfinished_ms = limits.FRAME_UNFINISHED_MS
        self.stall_ms = limits.SUBSCRIPTION_STALL_MS

    def hold(self, change: int) -> None:
        """Counts bytes of unfinished frames; refuses when the node holds too many of them."""
        self.unfinished_bytes += change
        if change > 0 and self.unfinished_bytes > limits.FRAMES_UNFINISHED_BYTES_MAX:
            raise Unavailable("this node holds too much of unfinished requests.", hint="Try again in a moment.")

    def observe(self, name: str, since: float, outcome: str = "OK") -> None:
        self.observer.operation(name, WIRE, time.perf_counter() - since, outcome)


def presentable(error: Exception) -> FlowMeshError:
    """The error that a user is shown. What is our own fault goes to the log, and not over the wire."""
    if isinstance(error, FlowMeshError):
        return error
    logger.error("a request failed", exc_info=error)
    return Internal("this request failed inside the node.", hint="The node's log says why.")
