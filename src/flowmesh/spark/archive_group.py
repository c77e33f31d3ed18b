"""The archive as a group of its stream: how far it has come, where it lies, and what retention keeps for it."""

from __future__ import annotations

from flowmesh.base.limits import GROUP_HOLD_S_MAX
from flowmesh.operations.messages import CommitGroup, GroupDescription, GroupList, ListGroups
from flowmesh.spark.node_stream import NodeLine
from flowmesh.spark.options import NodeAccess, StreamName

KIND = "archive"
GROUP = "archive"


class GroupHolder:
    """Tells the node. As long as the group is there, retention drops nothing that is not archived."""

    def __init__(
        self,
        access: NodeAccess,
        stream: StreamName,
        location: str,
        *,
        group: str = GROUP,
        hold_s: int = GROUP_HOLD_S_MAX,
    ) -> None:
        self._access = access
        self._stream = stream
        self._location = location
        self._group = group
        self._hold_s = hold_s

    def hold(self, offsets: dict[int, int]) -> None:
        request = CommitGroup(*self._stream, self._group, offsets, KIND, self._hold_s, self._location)
        line = NodeLine(self._access)
        try:
            line.ask("group.commit", [request], GroupDescription)
        finally:
            line.close()


def told_locations(access: NodeAccess, stream: StreamName) -> list[str]:
    """Where the archives of a stream lie, as far as the node knows."""
    line = NodeLine(access)
    try:
        (found,) = line.ask("group.list", [ListGroups(*stream)], GroupList)
    finally:
        line.close()
    return sorted({group.location for group in found.groups if group.kind == KIND and group.location})
