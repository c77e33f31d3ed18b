"""For every row of recovery's decision table a way to bring a log into that state, and what it costs.

The log has four segments of three blocks of two records: [0, 6), [6, 12), [12, 18), and the active [18, 24).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from flowmesh.format import floor as floor_format
from flowmesh.format import index as index_format
from flowmesh.format import names
from flowmesh.format.block import CRC, PREVIOUS_HASH
from flowmesh.format.segment import SIZE
from flowmesh.log.findings import Finding, Where
from flowmesh.log.retention import Retention
from tests.log import damage
from tests.log.damage import Change, change_entry, index_path, put, replace_header, segment_path, toggle

Step = Callable[[Path], None]
NONE = range(0)
THIRD = range(12, 18)
ACTIVE = range(18, 24)


class Case(NamedTuple):
    lay: Step
    """Lays the sound log."""
    damage: Step
    lost: range = NONE
    """Offsets that are not served. The end of the log, where it is cut or lost there."""
    segment: int = 0
    """The segment that the report names."""


# --- sound logs -------------------------------------------------------------------------------------------------------


def closed_cleanly(directory: Path) -> None:
    log = damage.open_here(directory)
    damage.append(log, 12)
    log.close()


def killed(directory: Path) -> None:
    """All of it synced and acknowledged; the active segment has no index file yet."""
    log = damage.open_here(directory)
    damage.append(log, 12)
    files = damage.snapshot(directory)
    log.close()
    damage.restore(directory, files)


def killed_while_writing(directory: Path) -> None:
    """The last two blocks, [20, 24), were written, not synced and not acknowledged."""
    log = damage.open_here(directory)
    damage.append(log, 10)
    log.write([damage.batch(20), damage.batch(22)])
    files = damage.snapshot(directory)
    log.close()
    damage.restore(directory, files)


def trimmed(directory: Path) -> None:
    """Begins at segment 2."""
    log = damage.open_here(directory)
    damage.append(log, 12)
    assert log.trim(Retention(size_bytes=3 * 792)) == 1
    log.close()


def nothing(directory: Path) -> None:
    directory.mkdir()


# --- damage -----------------------------------------------------------------------------------------------------------


def untouched(directory: Path) -> None:
    """For rows that describe a sound file."""


def remove(*files: str) -> Step:
    def step(directory: Path) -> None:
        for name in files:
            (directory / name).unlink()

    return step


def place(name: str, data: bytes) -> Step:
    def step(directory: Path) -> None:
        (directory / name).write_bytes(data)

    return step


def replace(name: str, old: bytes, new: bytes) -> Step:
    def step(directory: Path) -> None:
        data = (directory / name).read_bytes()
        assert old in data
        (directory / name).write_bytes(data.replace(old, new, 1))

    return step


def flip(name: str, position: int) -> Step:
    return lambda directory: damage.flip(directory / name, position)


def cut(name: str, size: int) -> Step:
    """To `size` bytes, or by `-size` bytes."""

    def step(directory: Path) -> None:
        path = directory / name
        damage.cut(path, size if size >= 0 else path.stat().st_size + size)

    return step


def both(*steps: Step) -> Step:
    def step(directory: Path) -> None:
        for one in steps:
            one(directory)

    return step


def header(number: int, **fields: Any) -> Step:
    return lambda directory: replace_header(segment_path(directory, number), **fields)


def header_version(number: int) -> Step:
    return lambda directory: damage.unknown_header_version(segment_path(directory, number))


def entry(number: int, row: int, change: Change, *, crc: bool = True) -> Step:
    return lambda directory: change_entry(segment_path(directory, number), row, change, crc=crc)


def index_fields(number: int, **fields: Any) -> Step:
    """An index whose checksum is right and whose header says something else."""

    def step(directory: Path) -> None:
        path = index_path(directory, number)
        stored = index_format.decode(path.read_bytes())
        assert stored is not None
        changed = stored.header._replace(**fields)
        path.write_bytes(index_format.encode(changed, stored.offsets, stored.positions, stored.times))

    return step


def index_of_other_segment(directory: Path) -> None:
    index_path(directory, 3).write_bytes(index_path(directory, 2).read_bytes())


def old_floor(directory: Path) -> None:
    """A floor that is sound and of this log, and says that segment 1 begins where segment 2 does."""
    first = damage.header_of(segment_path(directory, 2))
    hashes = first.previous_segment_hash.hex(), first.previous_block_hash.hex()
    (directory / names.FLOOR).write_bytes(floor_format.encode(floor_format.Floor(1, 6, *hashes)))


def segment_below_floor(directory: Path) -> None:
    """A trim that was killed after it had written the floor."""
    log = damage.open_here(directory)
    damage.append(log, 12)
    before = damage.snapshot(directory)
    log.trim(Retention(size_bytes=3 * 792))
    floor = (directory / names.FLOOR).read_bytes()
    log.close()
    damage.restore(directory, {**before, names.FLOOR: floor})


CRC_FAULT = toggle(damage.DATA + 70)
ENTRY_CHANGES: Mapping[Finding, tuple[Change, bool]] = {
    # The change, and whether the checksum is made right again.
    Finding.SHORT: (put(damage.LENGTH, (1 << 20).to_bytes(4, "little")), False),
    Finding.BAD_LENGTH: (put(damage.LENGTH, bytes(4)), False),
    Finding.BAD_CRC: (CRC_FAULT, False),
    Finding.WRONG_POSITION: (toggle(damage.DATA_OFFSET), True),
    Finding.WRONG_PREVIOUS_HASH: (toggle(PREVIOUS_HASH.start), True),
    Finding.WRONG_BASE_OFFSET: (toggle(damage.BATCH_BASE_OFFSET), True),
    Finding.BAD_BATCH: (put(damage.BATCH_COUNT, bytes(4)), True),
    Finding.UNKNOWN_VERSION: (put(damage.VERSION, b"\x02"), True),
}


def hash_last_anew(directory: Path) -> None:
    change_entry(segment_path(directory, 3), 2, CRC_FAULT, rehash=True)


SEGMENT_3, SEGMENT_4 = names.segment_name(3), names.segment_name(4)
INDEX_3, INDEX_4 = names.index_name(3), names.index_name(4)


def _segment_cases(where: Where, number: int, lost: range) -> dict[tuple[Where, Finding], list[Case]]:
    name = names.segment_name(number)
    steps = {
        Finding.MISSING: remove(name),
        Finding.SHORT: cut(name, SIZE - 1),
        Finding.DAMAGED: flip(name, 50),
        Finding.UNKNOWN_VERSION: header_version(number),
        Finding.WRONG_CHAIN: header(number, chain_hash=damage.OTHER_CHAIN.hash),
        Finding.WRONG_PREVIOUS_SEGMENT: header(number, previous_segment_hash=b"\x01" * 32),
        Finding.WRONG_BASE_OFFSET: header(number, base_offset=0),
    }
    cases = {(where, finding): [Case(closed_cleanly, step, lost, number)] for finding, step in steps.items()}
    cases[where, Finding.SHORT].append(Case(killed, cut(name, 0), lost, number))
    cases[where, Finding.DAMAGED].append(Case(closed_cleanly, flip(name, 0), lost, number))  # the magic
    cases[where, Finding.DAMAGED].append(Case(killed, flip(name, 12), lost, number))  # the version
    cases[where, Finding.SOUND] = [Case(closed_cleanly, untouched), Case(killed, untouched)]
    return cases


def _entry_cases(
    where: Where, number: int, row: int, lay: Step, before: Step, lost: range
) -> dict[tuple[Where, Finding], list[Case]]:
    cases = {(where, Finding.SOUND): [Case(lay, before)]}
    for finding, (change, crc) in ENTRY_CHANGES.items():
        cases[where, finding] = [Case(lay, both(before, entry(number, row, change, crc=crc)), lost, number)]
    return cases


CASES: dict[tuple[Where, Finding], list[Case]] = {
    (Where.CHAIN_FILE, Finding.SOUND): [Case(closed_cleanly, untouched)],
    (Where.CHAIN_FILE, Finding.MISSING): [Case(nothing, untouched)],
    (Where.CHAIN_FILE, Finding.MISSING_WITH_DATA): [
        Case(closed_cleanly, remove(names.CHAIN)),
        Case(nothing, place(names.MARK, bytes(64))),
        Case(trimmed, remove(names.CHAIN, names.MARK, *(names.segment_name(number) for number in (2, 3, 4)))),
    ],
    (Where.CHAIN_FILE, Finding.DAMAGED): [
        Case(closed_cleanly, replace(names.CHAIN, b"orders/0", b"orders/1")),
        Case(closed_cleanly, place(names.CHAIN, b"")),
    ],
    (Where.CHAIN_FILE, Finding.UNKNOWN_VERSION): [
        Case(closed_cleanly, replace(names.CHAIN, b'"version": 1', b'"version": 2'))
    ],
    (Where.FLOOR_FILE, Finding.SOUND): [Case(trimmed, untouched)],
    (Where.FLOOR_FILE, Finding.MISSING): [Case(closed_cleanly, untouched)],
    (Where.FLOOR_FILE, Finding.DAMAGED): [
        Case(trimmed, replace(names.FLOOR, b'"first_segment": 2', b'"first_segment": 3')),
        Case(closed_cleanly, place(names.FLOOR, b"{")),
    ],
    (Where.FLOOR_FILE, Finding.UNKNOWN_VERSION): [
        Case(trimmed, replace(names.FLOOR, b'"version": 1', b'"version": 2'))
    ],
    (Where.FLOOR_FILE, Finding.DISAGREES): [
        Case(closed_cleanly, old_floor),
        Case(trimmed, header(2, previous_block_hash=b"\x01" * 32)),
    ],
    (Where.MARK_FILE, Finding.SOUND): [Case(closed_cleanly, untouched), Case(killed_while_writing, untouched)],
    (Where.MARK_FILE, Finding.MISSING): [
        Case(closed_cleanly, remove(names.MARK)),
        Case(killed, remove(names.MARK)),
        Case(killed_while_writing, remove(names.MARK)),
    ],
    (Where.MARK_FILE, Finding.DAMAGED): [
        Case(closed_cleanly, flip(names.MARK, 20)),
        Case(killed, cut(names.MARK, 63)),
        Case(killed, cut(names.MARK, 0)),
    ],
    (Where.INDEX_FILE, Finding.SOUND): [Case(closed_cleanly, untouched)],
    (Where.INDEX_FILE, Finding.MISSING): [
        Case(closed_cleanly, remove(INDEX_3)),
        Case(closed_cleanly, remove(INDEX_4)),
    ],
    (Where.INDEX_FILE, Finding.DAMAGED): [
        Case(closed_cleanly, flip(INDEX_3, 60)),
        Case(closed_cleanly, cut(INDEX_3, 10)),
        Case(closed_cleanly, flip(INDEX_4, 60)),
    ],
    (Where.INDEX_FILE, Finding.OTHER_SEGMENT): [Case(closed_cleanly, index_of_other_segment)],
    (Where.INDEX_FILE, Finding.AHEAD): [Case(closed_cleanly, index_fields(3, covered_position=793))],
    (Where.INDEX_FILE, Finding.BEHIND): [
        Case(closed_cleanly, index_fields(3, covered_position=583, end_offset=16, blocks=2, records=4))
    ],
    (Where.INDEX_FILE, Finding.WRONG_PREVIOUS_BLOCK): [
        Case(closed_cleanly, index_fields(3, last_block_hash=bytes(32))),
        Case(closed_cleanly, index_fields(3, end_offset=17)),
    ],
    (Where.DIRECTORY, Finding.TEMPORARY): [Case(closed_cleanly, place("floor.json.tmp", b"half"))],
    (Where.DIRECTORY, Finding.BELOW_FLOOR): [Case(segment_below_floor, untouched)],
    (Where.DIRECTORY, Finding.STRAY): [
        Case(closed_cleanly, place("notes.txt", b"mine")),
        Case(closed_cleanly, place("segment-0000002.log", b"a name with a zero too many")),
    ],
    **_segment_cases(Where.CLOSED_SEGMENT, 3, THIRD),
    **_segment_cases(Where.LAST_SEGMENT, 4, ACTIVE),
    (Where.LAST_SEGMENT, Finding.TORN_CREATION): [
        Case(closed_cleanly, place(names.segment_name(5), b"")),
        Case(closed_cleanly, place(names.segment_name(5), b"FMSEGMT\n half")),
        Case(closed_cleanly, place(names.segment_name(5), bytes(SIZE))),
    ],
    **_entry_cases(Where.CLOSED_ENTRY, 3, 1, closed_cleanly, remove(INDEX_3), range(14, 16)),
    **_entry_cases(Where.DURABLE_ENTRY, 4, 1, killed, untouched, range(20, 22)),
    **_entry_cases(Where.DURABLE_END, 4, 2, killed, untouched, range(22, 24)),
    **_entry_cases(Where.TAIL_ENTRY, 4, 1, killed_while_writing, untouched, range(20, 24)),
    (Where.TAIL_ENTRY, Finding.BAD_HASH): [
        Case(killed_while_writing, entry(4, 1, CRC_FAULT), range(20, 24), 4),
    ],
}

CASES[Where.CLOSED_ENTRY, Finding.SHORT] += [
    Case(closed_cleanly, cut(SEGMENT_3, -1), range(16, 18), 3),
    Case(closed_cleanly, cut(SEGMENT_3, 374), range(14, 18), 3),  # between two entries
    # The next segment is gone as well; the one after that is not.
    Case(closed_cleanly, both(cut(names.segment_name(2), -1), remove(SEGMENT_3, INDEX_3)), range(10, 18), 2),
]
CASES[Where.CLOSED_ENTRY, Finding.WRONG_PREVIOUS_HASH].append(
    # The last block was edited and hashed anew: only the next segment knows the hash that it had.
    Case(closed_cleanly, both(remove(INDEX_3), hash_last_anew), THIRD, 3)
)
CASES[Where.LAST_SEGMENT, Finding.MISSING].append(
    Case(trimmed, remove(names.segment_name(2), names.segment_name(3), SEGMENT_4), range(6, 24), 4)
)
CASES[Where.LAST_SEGMENT, Finding.MISSING].append(Case(closed_cleanly, remove(SEGMENT_4, names.MARK), ACTIVE, 4))
CASES[Where.LAST_SEGMENT, Finding.SHORT].append(
    Case(closed_cleanly, both(cut(SEGMENT_4, 100), remove(names.MARK)), ACTIVE, 4)
)
CASES[Where.DURABLE_END, Finding.SHORT] += [
    Case(closed_cleanly, cut(SEGMENT_4, -CRC.size), range(22, 24), 4),
    Case(killed, cut(SEGMENT_4, 374), range(20, 24), 4),
    Case(killed, cut(SEGMENT_4, SIZE), ACTIVE, 4),
    Case(closed_cleanly, both(remove(names.MARK), cut(SEGMENT_4, -1)), range(22, 24), 4),  # the index remembers
]
CASES[Where.TAIL_ENTRY, Finding.SHORT] += [Case(killed_while_writing, cut(SEGMENT_4, -1), range(22, 24), 4)]
