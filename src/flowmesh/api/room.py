"""Room for connections: the wires of a node share it, and leave files enough for its logs. Nothing about any wire."""

from __future__ import annotations

from flowmesh.base.limits import CONNECTIONS_MAX, CONNECTIONS_SHARE

_WAITING_SHARE = 1 / 16
"""Of those files, for connections that wait to be accepted, on each wire: they may all be accepted at once."""


class ConnectionRoom:
    """`descriptors`: how many files the process may have open. A connection is one, for as long as it lasts."""

    def __init__(self, descriptors: int) -> None:
        self.most = min(2 * CONNECTIONS_MAX, max(1, int(descriptors * CONNECTIONS_SHARE)))
        self.taken = 0
        self._waiting_max = max(1, int(descriptors * _WAITING_SHARE))

    def enter(self) -> bool:
        """Counts a connection; whether there is room for it. Those that are sent away leave like all others."""
        self.taken += 1
        return self.taken <= self.most

    def leave(self) -> None:
        self.taken -= 1

    @property
    def is_crowded(self) -> bool:
        """Whether even those that are being sent away are too many to be told why."""
        return self.taken > self.most + self._waiting_max // 2

    def backlog(self, most: int) -> int:
        """How many connections may wait to be accepted."""
        return min(most, self._waiting_max)
