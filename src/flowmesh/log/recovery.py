"""The decision table of recovery: for everything that can be found on disk, the one thing that is done about it.

Two rules make the table. What is past the durable bound was never acknowledged, so a fault there is a torn write and
is cut. What is below the bound was acknowledged, so a fault there is rot: it is named and kept, not cut, not served.
"""

from __future__ import annotations

from collections.abc import Mapping

from flowmesh.log.findings import Action, Finding, Where

ENTRY_FAULTS = (
    Finding.SHORT,
    Finding.BAD_LENGTH,
    Finding.BAD_CRC,
    Finding.WRONG_POSITION,
    Finding.WRONG_PREVIOUS_HASH,
    Finding.WRONG_BASE_OFFSET,
    Finding.BAD_BATCH,
)
"""A wrong hash under a right checksum is no accident. Only verify computes hashes of what is durable."""
SEGMENT_FAULTS = (
    Finding.SHORT,
    Finding.DAMAGED,
    Finding.WRONG_CHAIN,
    Finding.WRONG_PREVIOUS_SEGMENT,
    Finding.WRONG_BASE_OFFSET,
)


def _entries(where: Where, action: Action) -> dict[tuple[Where, Finding], Action]:
    return {
        (where, Finding.SOUND): Action.USE,
        (where, Finding.UNKNOWN_VERSION): Action.REFUSE,
        **{(where, fault): action for fault in ENTRY_FAULTS},
    }


DECISIONS: Mapping[tuple[Where, Finding], Action] = {
    (Where.CHAIN_FILE, Finding.SOUND): Action.USE,
    (Where.CHAIN_FILE, Finding.MISSING): Action.CREATE,
    (Where.CHAIN_FILE, Finding.MISSING_WITH_DATA): Action.REFUSE,
    (Where.CHAIN_FILE, Finding.DAMAGED): Action.REFUSE,
    (Where.CHAIN_FILE, Finding.UNKNOWN_VERSION): Action.REFUSE,
    (Where.FLOOR_FILE, Finding.SOUND): Action.USE,
    (Where.FLOOR_FILE, Finding.MISSING): Action.USE,
    (Where.FLOOR_FILE, Finding.DAMAGED): Action.REFUSE,
    (Where.FLOOR_FILE, Finding.UNKNOWN_VERSION): Action.REFUSE,
    (Where.FLOOR_FILE, Finding.DISAGREES): Action.REFUSE,
    (Where.MARK_FILE, Finding.SOUND): Action.USE,
    (Where.MARK_FILE, Finding.MISSING): Action.IGNORE,
    (Where.MARK_FILE, Finding.DAMAGED): Action.IGNORE,
    (Where.INDEX_FILE, Finding.SOUND): Action.USE,
    (Where.INDEX_FILE, Finding.MISSING): Action.REBUILD,
    (Where.INDEX_FILE, Finding.DAMAGED): Action.REBUILD,
    (Where.INDEX_FILE, Finding.OTHER_SEGMENT): Action.REBUILD,
    (Where.INDEX_FILE, Finding.AHEAD): Action.REBUILD,
    (Where.INDEX_FILE, Finding.BEHIND): Action.REBUILD,
    (Where.INDEX_FILE, Finding.WRONG_PREVIOUS_BLOCK): Action.REBUILD,
    (Where.DIRECTORY, Finding.TEMPORARY): Action.REMOVE,
    (Where.DIRECTORY, Finding.BELOW_FLOOR): Action.REMOVE,
    (Where.DIRECTORY, Finding.STRAY): Action.IGNORE,
    (Where.CLOSED_SEGMENT, Finding.SOUND): Action.USE,
    (Where.CLOSED_SEGMENT, Finding.MISSING): Action.QUARANTINE,
    (Where.CLOSED_SEGMENT, Finding.UNKNOWN_VERSION): Action.REFUSE,
    **{(Where.CLOSED_SEGMENT, fault): Action.QUARANTINE for fault in SEGMENT_FAULTS},
    (Where.LAST_SEGMENT, Finding.SOUND): Action.USE,
    (Where.LAST_SEGMENT, Finding.TORN_CREATION): Action.REMOVE,
    (Where.LAST_SEGMENT, Finding.MISSING): Action.READ_ONLY,
    (Where.LAST_SEGMENT, Finding.UNKNOWN_VERSION): Action.REFUSE,
    **{(Where.LAST_SEGMENT, fault): Action.READ_ONLY for fault in SEGMENT_FAULTS},
    **_entries(Where.CLOSED_ENTRY, Action.QUARANTINE),
    **_entries(Where.DURABLE_ENTRY, Action.QUARANTINE),
    **_entries(Where.DURABLE_END, Action.READ_ONLY),
    **_entries(Where.TAIL_ENTRY, Action.CUT),
    (Where.TAIL_ENTRY, Finding.BAD_HASH): Action.CUT,
}


def decide(where: Where, finding: Finding) -> Action:
    return DECISIONS[where, finding]
