"""What is known of a group: a plain value, replaced as a whole by every commit."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class GroupKind(StrEnum):
    """Who reads. Nothing here depends on it: it is for people, and for the readers themselves."""

    CONSUMER = "consumer"
    SPARK = "spark"
    ARCHIVE = "archive"


class Group(msgspec.Struct, frozen=True):
    stream: int
    """The id of the stream: one of the same name, made later, has groups of its own."""
    name: str
    kind: str
    created_ns: int
    updated_ns: int
    ran_ns: int
    """How long the node had run, in all its life, when this was last committed. What a hold is measured by."""
    offsets: dict[int, int]
    """The next one to read, by partition. Never changed in place."""
    hold_ns: int | None = None
    """How long after the last commit retention keeps what was not read. None: nothing is kept for this group."""
    location: str | None = None

    def hold_left_ns(self, ran_ns: int) -> int | None:
        """What is left of the hold when the node has run so long; nothing or less means that it is over."""
        return None if self.hold_ns is None else self.hold_ns - (ran_ns - self.ran_ns)

    def holds(self, ran_ns: int) -> bool:
        """Whether retention keeps what this group has not read, in the partitions that it has committed."""
        left_ns = self.hold_left_ns(ran_ns)
        return left_ns is not None and left_ns > 0
