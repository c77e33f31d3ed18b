"""The position of a streaming query as a group of its stream, so that lag is seen and retention waits for the query.

A thread of its own commits it: also while the query is idle, and while one of its batches takes hours.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress

from flowmesh.base.errors import FlowMeshError
from flowmesh.base.limits import GROUP_HOLD_S_MAX
from flowmesh.base.times import NANOSECONDS
from flowmesh.operations.messages import CommitGroup, GroupDescription
from flowmesh.spark.errors import TRANSIENT, explained
from flowmesh.spark.node_stream import NodeLine
from flowmesh.spark.options import NodeAccess, StreamName

KIND = "spark"
REFRESH_S = 20.0
"""How often a position that does not move is committed again; with a short hold, more often."""
PAUSE_S = 1.0
"""The least time between two commits of a query whose batches are short."""
FLUSH_S = 5.0
_CLOSE_S = 10.0


class Publisher:
    """Never stands in the query's way: what cannot be published now is tried again, and said on standard error once."""

    def __init__(self, access: NodeAccess, stream: StreamName, group: str, hold_ns: int | None) -> None:
        self._line = NodeLine(access, patience_ns=0)
        self._stream = stream
        self._group = group
        self._hold_s = None if hold_ns is None else min(max(-(-hold_ns // NANOSECONDS), 1), GROUP_HOLD_S_MAX)
        self._refresh_s = REFRESH_S if self._hold_s is None else min(REFRESH_S, self._hold_s / 4)
        self._changed = threading.Condition()
        self._offsets: dict[int, int] = {}
        self._said: dict[int, int] | None = None
        """What the node was told last."""
        self._hurry = self._ended = self._complained = False
        self._thread: threading.Thread | None = None

    def start(self, offsets: dict[int, int]) -> None:
        """Commits where the query begins before anything is planned: from here on nothing is taken from under it.

        A group that cannot be had at all (no permission, a wrong name) is an error now; an absent node is not.
        """
        self._offsets = dict(offsets)
        try:
            self._commit(dict(offsets))
        except TRANSIENT:
            pass
        except FlowMeshError as error:
            raise explained(error, f"group {self._group!r} of stream {self._stream}") from None
        else:
            self._said = dict(offsets)
        self._thread = threading.Thread(target=self._run, name="flowmesh-position", daemon=True)
        self._thread.start()

    def publish(self, offsets: dict[int, int]) -> None:
        """Everything before these offsets is done with. Returns at once. What was said before is not taken back."""
        with self._changed:
            ahead = {p: max(offset, self._offsets.get(p, offset)) for p, offset in offsets.items()}
            if ahead != self._offsets:
                self._offsets = ahead
                self._changed.notify_all()

    def flush(self) -> None:
        """Waits a moment until the node was told. For when nothing is left to read: the query may end now."""
        with self._changed:
            self._hurry = self._offsets != self._said
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._offsets == self._said or not self._hurry, FLUSH_S)

    def close(self) -> None:
        """Commits what is left to say, if the node is there."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        last = time.monotonic()
        ended = failed = False
        while not ended:
            with self._changed:
                while not (self._ended or self._hurry):
                    soon = failed or self._offsets != self._said
                    left = last + (PAUSE_S if soon else self._refresh_s) - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
                offsets, ended = dict(self._offsets), self._ended
            if not ended or offsets != self._said:
                failed = not self._try_commit(offsets)
                last = time.monotonic()
        self._line.close()

    def _try_commit(self, offsets: dict[int, int]) -> bool:
        try:
            self._commit(offsets)
        except FlowMeshError as error:
            if not isinstance(error, TRANSIENT):
                self._complain(error)
            said = self._said
        else:
            said, self._complained = offsets, False
        with self._changed:
            done = said is offsets
            self._said, self._hurry = said, False
            self._changed.notify_all()
        return done

    def _commit(self, offsets: dict[int, int]) -> None:
        request = CommitGroup(*self._stream, self._group, offsets, KIND, self._hold_s)
        self._line.ask("group.commit", [request], GroupDescription)

    def _complain(self, error: FlowMeshError) -> None:
        if not self._complained:
            self._complained = True
            with suppress(OSError):
                sys.stderr.write(f"flowmesh: group {self._group!r} of {self._stream} is not published: {error}\n")
