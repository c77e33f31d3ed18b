"""What can be found wrong in a log's directory, where, and what is done about it: the words of recovery and verify."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from flowmesh.base.errors import CorruptData


class Where(StrEnum):
    CHAIN_FILE = "chain file"
    FLOOR_FILE = "floor file"
    MARK_FILE = "durable mark"
    INDEX_FILE = "index"
    DIRECTORY = "directory"
    CLOSED_SEGMENT = "closed segment"
    LAST_SEGMENT = "last segment"
    CLOSED_ENTRY = "entry of a closed segment"
    DURABLE_ENTRY = "durable entry of the active segment"
    DURABLE_END = "durable end of the active segment"
    TAIL_ENTRY = "entry past the durable end"


class Finding(StrEnum):
    SOUND = "sound"
    MISSING = "missing"
    MISSING_WITH_DATA = "missing though there is a log"
    SHORT = "cut short"
    TORN_CREATION = "never finished being created"
    DAMAGED = "damaged"
    UNKNOWN_VERSION = "of an unknown version"
    WRONG_CHAIN = "of another chain"
    WRONG_PREVIOUS_SEGMENT = "not linked to the segment before it"
    WRONG_PREVIOUS_BLOCK = "not linked to the last block before it"
    WRONG_BASE_OFFSET = "not at the offset that follows"
    BAD_LENGTH = "of an impossible length"
    BAD_CRC = "failing its checksum"
    WRONG_POSITION = "not where its header says"
    WRONG_PREVIOUS_HASH = "not linked to the block before it"
    BAD_BATCH = "holding an impossible batch"
    BAD_HASH = "not matching its hash"
    OTHER_SEGMENT = "made for another segment"
    AHEAD = "ahead of the data"
    BEHIND = "behind the data"
    DISAGREES = "disagreeing with the first segment"
    TEMPORARY = "a temporary file"
    STRAY = "not a file of this log"
    BELOW_FLOOR = "left over from a trim"


class Action(StrEnum):
    USE = "use"
    CREATE = "create"
    IGNORE = "ignore"
    REBUILD = "rebuild"
    REMOVE = "remove"
    CUT = "cut"
    QUARANTINE = "quarantine"
    READ_ONLY = "read only"
    REFUSE = "refuse"


class Damage(NamedTuple):
    """A range of a log that is not what was written. `end_offset` is -1 where nothing says where the range ends."""

    segment: int
    position: int
    end_position: int
    first_offset: int
    end_offset: int
    finding: Finding

    def covers(self, offset: int) -> bool:
        return offset >= self.first_offset and (offset < self.end_offset or self.end_offset < 0)

    def within(self, end_offset: int) -> Damage:
        """The same, with the end of its segment where nothing else says where the range ends."""
        return self._replace(end_offset=end_offset) if self.end_offset < 0 else self

    def describe(self) -> str:
        end = "the end" if self.end_offset < 0 else str(self.end_offset)
        return (
            f"segment {self.segment}, bytes [{self.position}, {self.end_position}): {self.finding.value};"
            f" offsets [{self.first_offset}, {end}) cannot be served"
        )

    def error(self) -> CorruptData:
        return CorruptData(
            f"{self.describe()}.",
            field="offset",
            hint="Run 'flowmesh log verify' for a full report; restore this range from a copy, or read past it.",
        )


class Note(NamedTuple):
    """One line of a recovery report: what was found, where, and what was done."""

    where: Where
    finding: Finding
    action: Action
    detail: str
