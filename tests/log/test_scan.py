"""Walking a segment: sound entries in order, each fault named with its range, and the way found again behind it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flowmesh.base.limits import MIB
from flowmesh.format import batch as batches
from flowmesh.format import block as block_format
from flowmesh.format import columns
from flowmesh.format import segment as segment_format
from flowmesh.format.segment import SIZE
from flowmesh.log.findings import Damage, Finding
from flowmesh.log.scan import CHUNK_BYTES, Block, Position, scan
from tests.log import damage
from tests.log.damage import SMALL, append, bounds, change_entry, open_here, segment_path, toggle, values_of, written
from tests.log.watched import WatchedDisk

OPTIONS = replace(SMALL, segment_bytes=16 * MIB, segment_records=10**6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return segment_path(tmp_path / "log", 1)


def fill(path: Path, blocks: int = 5) -> None:
    log = open_here(path.parent, OPTIONS)
    append(log, blocks)
    log.close()


def walk(
    path: Path, *, chunk_bytes: int = CHUNK_BYTES, deep: bool = False, disk: WatchedDisk | None = None
) -> Iterator[Block | Damage]:
    file = (disk or WatchedDisk()).open(str(path))
    header = segment_format.decode(path.read_bytes())
    start = Position(SIZE, header.base_offset, header.hash)
    return scan(file, 1, header, start, file.size(), deep_from=SIZE if deep else None, chunk_bytes=chunk_bytes)


def parted(walked: Iterator[Block | Damage]) -> tuple[dict[int, bytes | None], list[Damage]]:
    found = list(walked)
    return values_of(one for one in found if isinstance(one, Block)), [one for one in found if isinstance(one, Damage)]


@pytest.mark.parametrize("chunk_bytes", [1, 7, 110, 209, 210, 1000, CHUNK_BYTES])
def test_blocks_come_whole_and_chained_whatever_is_read_at_once(chunk_bytes: int, path: Path) -> None:
    fill(path)
    found = [one for one in walk(path, chunk_bytes=chunk_bytes, deep=True) if isinstance(one, Block)]
    assert values_of(found) == written(range(10))
    assert [one.header.previous_hash for one in found[1:]] == [one.header.hash for one in found[:-1]]
    assert [(one.position, one.end_position) for one in found] == bounds(path.read_bytes())
    assert all(one.id == block_format.block_id(found[0].segment.hash, one.header.hash) for one in found)


def test_a_block_larger_than_what_is_read_at_once_comes_whole(path: Path) -> None:
    big = bytes(range(256)) * (10 * CHUNK_BYTES // 1024)
    log = open_here(path.parent, OPTIONS)
    append(log, 1)
    log.write([columns.encode([big]), columns.encode([big, b"after"])])
    log.sync()
    log.close()
    assert len(big) > 2 * CHUNK_BYTES
    values, faults = parted(walk(path, deep=True))
    assert faults == []
    assert list(values.values()) == [damage.value(0), damage.value(1), big, big, b"after"]


@pytest.mark.parametrize("length", [0, 1, 2**26 + 2**20, 2**32 - 1])
def test_a_length_beyond_all_limits_is_not_read(length: int, path: Path) -> None:
    fill(path)
    change_entry(path, 4, damage.put(damage.LENGTH, length.to_bytes(4, "little")), crc=False)
    disk = WatchedDisk()
    values, (fault,) = parted(walk(path, disk=disk))
    assert values == written(range(8))
    assert (fault.finding, fault.first_offset, fault.end_offset) == (Finding.BAD_LENGTH, 8, -1)
    assert max(wanted for _, _, wanted in disk.reads) <= CHUNK_BYTES + 16


@pytest.mark.parametrize("rows", [[0], [1], [1, 2], [1, 3], [0, 1, 2, 3]])
def test_after_a_fault_the_walk_goes_on_with_the_next_sound_entry(rows: list[int], path: Path) -> None:
    fill(path)
    for row in rows:
        change_entry(path, row, toggle(damage.DATA + 70), crc=False)
    values, faults = parted(walk(path))
    assert values == written(*(range(2 * row, 2 * row + 2) for row in range(5) if row not in rows))
    lost = {offset for fault in faults for offset in range(10) if fault.covers(offset)}
    assert lost == {offset for offset in range(10) if offset // 2 in rows}
    places = bounds(path.read_bytes())
    assert all((places[row][0]) in [p for f in faults for p in range(f.position, f.end_position)] for row in rows)


def test_the_way_is_found_again_when_the_length_itself_is_damaged(path: Path) -> None:
    fill(path)
    change_entry(path, 1, damage.put(damage.LENGTH, bytes(4)), crc=False)
    values, (fault,) = parted(walk(path))
    assert values == written(range(2), range(4, 10))
    places = bounds(segment_bytes_before(path))
    assert (fault.position, fault.end_position) == places[1]
    assert (fault.first_offset, fault.end_offset) == (2, 4)


def segment_bytes_before(path: Path) -> bytes:
    """All entries here have one length: the second gets it from the first."""
    data = bytearray(path.read_bytes())
    begin, end = SIZE, SIZE + 4 + int.from_bytes(data[SIZE : SIZE + 4], "little")
    data[end : end + 4] = data[begin : begin + 4]
    return bytes(data)


def test_an_entry_that_a_producer_put_into_a_value_is_not_taken_for_one(path: Path) -> None:
    """It is sound in every way and says the right position; only the chain does not go on behind it."""
    log = open_here(path.parent, OPTIONS)
    append(log, 1)
    position = log.view.active.end_position
    inside = position + block_format.PREFIX_SIZE + 64 + 8  # batch header, two value offsets
    forged = damage.batch(50)
    head = batches.stamp(forged.header, 50, 0, 0)
    entry = block_format.encode_entry(bytes(32), 0, inside, head, forged.body)
    log.write([columns.encode([entry])])
    log.sync()
    append(log, 1)
    log.close()
    assert path.read_bytes()[inside : inside + len(entry)] == entry
    change_entry(path, 1, damage.put(damage.LENGTH, bytes(4)), crc=False)
    values, (fault,) = parted(walk(path))
    assert values == written(range(2), range(3, 5))
    assert (fault.first_offset, fault.end_offset) == (2, 3)


def test_only_a_deep_walk_computes_hashes(path: Path) -> None:
    fill(path)
    change_entry(path, 2, toggle(damage.DATA + 70))
    assert parted(walk(path))[1] == []
    values, (fault,) = parted(walk(path, deep=True))
    assert (fault.finding, fault.first_offset, fault.end_offset) == (Finding.BAD_HASH, 4, 6)
    assert values == written(range(4), range(6, 10))


def test_an_edit_with_hash_and_checksum_made_right_breaks_the_next_link(path: Path) -> None:
    fill(path)
    change_entry(path, 2, toggle(damage.DATA + 70), rehash=True)
    _, (fault,) = parted(walk(path))
    assert (fault.finding, fault.first_offset, fault.end_offset) == (Finding.WRONG_PREVIOUS_HASH, 6, 8)


def test_a_length_of_the_data_that_no_hash_covers_is_held_against_that_of_the_entry(path: Path) -> None:
    fill(path)
    change_entry(path, 2, toggle(damage.DATA_OFFSET + 8))
    values, (fault,) = parted(walk(path))
    assert (fault.finding, fault.first_offset, fault.end_offset) == (Finding.WRONG_POSITION, 4, 6)
    assert values == written(range(4), range(6, 10))


@pytest.mark.parametrize("rest, finding", [(b"\0\0", Finding.SHORT), (bytes(100), Finding.BAD_LENGTH)])
def test_a_rest_too_short_for_any_entry_is_a_fault_all_the_same(rest: bytes, finding: Finding, path: Path) -> None:
    fill(path)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + rest)
    values, faults = parted(walk(path))
    assert values == written(range(10))
    assert faults == [Damage(1, size, size + len(rest), 10, -1, finding)]


def test_two_entries_that_changed_places_are_both_faults(path: Path) -> None:
    fill(path)
    data = path.read_bytes()
    (a, b), (_, c) = bounds(data)[1:3]
    path.write_bytes(data[:a] + data[b:c] + data[a:b] + data[c:])
    values, faults = parted(walk(path))
    assert values == written(range(2), range(6, 10))
    assert {fault.finding for fault in faults} == {Finding.WRONG_POSITION}
