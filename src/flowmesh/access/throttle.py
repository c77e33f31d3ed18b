"""Failed authentications, counted for each peer, so that guessing secrets gets slow and stays bounded in memory."""

from __future__ import annotations

from collections import OrderedDict

FAILURES_MAX = 20
"""Failures a peer may have before it is refused unheard."""
WINDOW_NS = 60 * 1_000_000_000
PEERS_MAX = 10_000


class Throttle:
    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def refuses(self, peer: str, now_ns: int) -> bool:
        count, since = self._failures.get(peer, (0, now_ns))
        return count >= FAILURES_MAX and now_ns - since < WINDOW_NS

    def failed(self, peer: str, now_ns: int) -> None:
        count, since = self._failures.pop(peer, (0, now_ns))
        if now_ns - since >= WINDOW_NS:
            count, since = 0, now_ns
        self._failures[peer] = (count + 1, since)
        while len(self._failures) > PEERS_MAX:
            self._failures.popitem(last=False)
