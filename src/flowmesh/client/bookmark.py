"""Where a consumer's group has come to: looked up at the beginning, committed every so often and at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from flowmesh.base.errors import BadRequest, FlowMeshError, NotFound, TimedOut, Unavailable
from flowmesh.client.session import Session
from flowmesh.operations.messages import CommitGroup, DescribeGroup, GroupDescription

COMMIT_INTERVAL_S = 5.0
CLOSE_TIMEOUT_S = 5.0
"""How long the last commit may take. Without it the records since the one before are given again."""
Positions = dict[int, int]


class Bookmark:
    """Commits over the client's own connection: the consumer's is not read while the consumer is full."""

    def __init__(
        self, session: Session, place: tuple[str, str, str], group: str, hold_s: int | None, interval_s: float
    ) -> None:
        if interval_s <= 0:
            raise BadRequest(f"commit_interval_s is {interval_s}; it has to be positive.", field="commit_interval_s")
        self._session = session
        self._place = place
        self._group = group
        self._hold_s = hold_s
        self._interval_s = interval_s
        self._committed: Positions = {}
        self._committed_at = float("-inf")

    async def find(self) -> Positions:
        """What was committed; nothing when the group is new."""
        request = DescribeGroup(*self._place, self._group)
        try:
            found = await self._session.request("group.describe", request, GroupDescription, repeatable=True)
        except NotFound as error:
            if error.field != "group":
                raise
            return {}
        return {position.partition: position.offset for position in found.partitions}

    async def commit(self, positions: Positions, *, timeout_s: float | None = None) -> None:
        """Does nothing when nothing has changed, as long as that lets no hold run out."""
        changed = {number: offset for number, offset in positions.items() if self._committed.get(number) != offset}
        if not changed and not self._must_renew():
            return
        request = CommitGroup(*self._place, self._group, changed, hold_s=self._hold_s)
        await self._session.request("group.commit", request, GroupDescription, repeatable=True, timeout_s=timeout_s)
        self._committed |= changed
        self._committed_at = asyncio.get_running_loop().time()

    def _must_renew(self) -> bool:
        if self._hold_s is None:
            return self._committed_at == float("-inf")
        return asyncio.get_running_loop().time() - self._committed_at >= self._hold_s / 4

    async def run(self, positions: Callable[[], Positions]) -> None:
        """Commits until it is cancelled. A node that is away for a while is asked again the next time."""
        while True:
            await asyncio.sleep(self._interval_s)
            with suppress(TimedOut, Unavailable):
                await self.commit(positions())

    async def end(self, positions: Positions) -> None:
        with suppress(FlowMeshError):
            await self.commit(positions, timeout_s=CLOSE_TIMEOUT_S)
