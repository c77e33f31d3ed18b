"""The names of the files in a log's directory, and which of them is what."""

from __future__ import annotations

import re
from enum import StrEnum

from flowmesh.base.limits import SEGMENT_NUMBER_MAX

CHAIN = "chain.json"
FLOOR = "floor.json"
MARK = "durable.mark"
LOCK = "lock"
TEMPORARY = ".tmp"
_SNAPSHOT = re.compile(r"snapshot-([0-9]{20})\.bin")
_NUMBERED = re.compile(r"segment-([0-9]{6,9})\.(log|idx)")


class FileKind(StrEnum):
    SEGMENT = "segment"
    INDEX = "index"
    CHAIN = "chain"
    FLOOR = "floor"
    MARK = "mark"
    LOCK = "lock"
    SNAPSHOT = "snapshot"
    TEMPORARY = "temporary"
    STRAY = "stray"


_FIXED = {CHAIN: FileKind.CHAIN, FLOOR: FileKind.FLOOR, MARK: FileKind.MARK, LOCK: FileKind.LOCK}


def segment_name(number: int) -> str:
    assert 1 <= number <= SEGMENT_NUMBER_MAX
    return f"segment-{number:06d}.log"


def index_name(number: int) -> str:
    return f"segment-{number:06d}.idx"


def snapshot_name(end_offset: int) -> str:
    return f"snapshot-{end_offset:020d}.bin"


def classify(name: str) -> tuple[FileKind, int]:
    """What a file is by its name alone, and its segment number (0 where it has none)."""
    if name in _FIXED:
        return _FIXED[name], 0
    if _SNAPSHOT.fullmatch(name):
        return FileKind.SNAPSHOT, 0
    if name.endswith(TEMPORARY):
        return FileKind.TEMPORARY, 0
    match = _NUMBERED.fullmatch(name)
    if match is None or int(match[1]) == 0 or f"{int(match[1]):06d}" != match[1]:
        return FileKind.STRAY, 0
    return (FileKind.SEGMENT if match[2] == "log" else FileKind.INDEX), int(match[1])
