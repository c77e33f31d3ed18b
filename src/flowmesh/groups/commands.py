"""What can be asked of the groups. Names, offsets and lengths were checked before."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

_SIZE = 512
"""More than what any command weighs in a writer's queue and in the log, without its offsets and its location."""
_POSITION_SIZE = 16


class CommitOffsets(NamedTuple):
    stream: int
    group: str
    offsets: dict[int, int]
    kind: str
    hold_ns: int | None = None
    location: str | None = None

    @property
    def size(self) -> int:
        return _SIZE + _POSITION_SIZE * len(self.offsets) + 4 * len(self.location or "")


class DropGroup(NamedTuple):
    stream: int
    group: str
    size: int = _SIZE


class DropGroupsOf(NamedTuple):
    """The stream is gone."""

    stream: int
    size: int = _SIZE


class NoteTime(NamedTuple):
    """Writes down how long the node has run, so that holds go on from there after a restart."""

    size: int = _SIZE


Command: TypeAlias = CommitOffsets | DropGroup | DropGroupsOf | NoteTime
