"""One small log, damaged at every byte in turn: what is served is what was written, and what is lost is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from flowmesh.base.errors import CorruptData, UnsupportedVersion
from flowmesh.format import mark as mark_format
from flowmesh.format import names
from flowmesh.format.segment import SIZE
from flowmesh.log.retention import Retention
from flowmesh.log.verify import verify_log
from flowmesh.log.view import LogView
from tests.log.damage import (
    DISK,
    SMALL,
    append,
    batch,
    bounds,
    open_here,
    read_here,
    restore,
    snapshot,
    values,
    values_of,
    written,
)

Files = dict[str, bytes]
CLOSED, ACTIVE = names.segment_name(1), names.segment_name(2)
"""Two blocks of two records each: [0, 4) in the closed segment, [4, 8) in the active one."""
OPTIONS = replace(SMALL, segment_records=4)
FIELDS = {names.FLOOR: "floor_file", names.CHAIN: "chain_file"}
"""Without these two a log is not served; the others are only hints."""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No power is cut here, so nothing is lost by leaving out thousands of syncs."""
    monkeypatch.setattr("os.fdatasync", lambda descriptor: None)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    return tmp_path / "log"


def killed(directory: Path) -> Files:
    log = open_here(directory, OPTIONS)
    append(log, 4)
    files = snapshot(directory)
    log.close()
    return files


def closed_cleanly(directory: Path) -> Files:
    log = open_here(directory, OPTIONS)
    append(log, 4)
    log.close()
    return snapshot(directory)


def killed_while_writing(directory: Path) -> Files:
    """Nothing of the active segment's second block was acknowledged."""
    log = open_here(directory, OPTIONS)
    append(log, 3)
    log.write([batch(6)])
    files = snapshot(directory)
    log.close()
    return files


def trimmed(directory: Path) -> Files:
    log = open_here(directory, OPTIONS)
    append(log, 4)
    log.trim(Retention(size_bytes=0))
    log.close()
    return snapshot(directory)


@contextmanager
def at(position: int) -> Iterator[None]:
    """Tells, when something fails, which byte it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"at byte {position}")
        raise


def flipped(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1 << (position * 5 + position // 8) % 8
    return bytes(changed)


def owned(directory: Path) -> dict[int, bytes | None]:
    """What the owner serves, whole log; raises what opening or reading raises."""
    log = open_here(directory, OPTIONS)
    try:
        return values(log.view)
    finally:
        log.close()


def refused_offsets(view: LogView, among: range, segment: int) -> set[int]:
    """The offsets that are refused, each with the segment's name; all others are what was written."""
    refused: dict[int, str] = {}
    for offset in among:
        try:
            blocks = view.read(offset).blocks
        except CorruptData as error:
            refused[offset] = str(error)
        else:
            assert blocks[0].base_offset <= offset < blocks[0].end_offset
            assert values_of(blocks) == written(range(blocks[0].base_offset, blocks[-1].end_offset))
    assert all(f"segment {segment}, bytes [" in text for text in refused.values())
    return set(refused)


def lost_to_a_flip(data: bytes, position: int, base_offset: int) -> set[int]:
    """A damaged header takes its segment along, a damaged entry only itself."""
    if position < SIZE:
        return set(range(base_offset, base_offset + 4))
    row = next(row for row, (_, end) in enumerate(bounds(data)) if position < end)
    return {base_offset + 2 * row, base_offset + 2 * row + 1}


# --- torn writes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_mark", [True, False], ids=["mark", "no-mark"])
def test_a_tail_cut_anywhere_is_recovered_to_the_last_whole_entry(with_mark: bool, directory: Path) -> None:
    files = killed_while_writing(directory)
    data = files[ACTIVE]
    mark = mark_format.decode(files[names.MARK])
    assert mark is not None
    assert (mark.segment, mark.position) == (2, bounds(data)[0][1])
    if not with_mark:
        del files[names.MARK]
    ends = {end: 4 + 2 * (row + 1) for row, (_, end) in enumerate(bounds(data))} | {SIZE: 4}
    for size in range(mark.position if with_mark else 0, len(data) + 1):
        with at(size):
            restore(directory, {**files, ACTIVE: data[:size]})
            kept = max([offset for end, offset in ends.items() if end <= size], default=4)
            log = open_here(directory, OPTIONS)
            assert values(log.view) == written(range(kept))
            append(log)
            log.close()
            assert values(read_here(directory)) == written(range(kept + 2))


def test_a_tail_with_any_bit_flipped_is_cut(directory: Path) -> None:
    files = killed_while_writing(directory)
    data = files[ACTIVE]
    for position in range(bounds(data)[1][0], len(data)):
        with at(position):
            restore(directory, {**files, ACTIVE: flipped(data, position)})
            assert owned(directory) == written(range(6))
            assert (directory / ACTIVE).read_bytes() == data[: bounds(data)[0][1]]


# --- rot: parts that are missing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lay", [killed, closed_cleanly])
def test_a_durable_end_cut_anywhere_is_named_and_refuses_appends(lay: Callable[[Path], Files], directory: Path) -> None:
    files = lay(directory)
    data = files[ACTIVE]
    for size in range(len(data)):
        with at(size):
            damaged = {**files, ACTIVE: data[:size]}
            restore(directory, damaged)
            kept = 4 + 2 * sum(end <= size for _, end in bounds(data))
            with pytest.raises(CorruptData, match=f"missing from the end.*segment 2.*offsets .{kept}, "):
                open_here(directory, OPTIONS)
            view = read_here(directory)
            assert refused_offsets(view, range(8), 2) == set(range(kept, 8))
            assert 2 in {item.segment for item in verify_log(DISK, str(directory)).damage}
            assert snapshot(directory) == damaged


@pytest.mark.parametrize("lay", [killed, closed_cleanly])
def test_a_closed_segment_cut_anywhere_is_quarantined_from_there_on(
    lay: Callable[[Path], Files], directory: Path
) -> None:
    files = lay(directory)
    data = files[CLOSED]
    for size in range(len(data)):
        with at(size):
            restore(directory, {**files, CLOSED: data[:size]})
            kept = 2 * sum(end <= size for _, end in bounds(data))
            assert refused_offsets(read_here(directory), range(8), 1) == set(range(kept, 4))
            assert 1 in {item.segment for item in verify_log(DISK, str(directory)).damage}
            log = open_here(directory, OPTIONS)
            assert refused_offsets(log.view, range(8), 1) == set(range(kept, 4))
            log.close()
            assert snapshot(directory)[CLOSED] == data[:size]


# --- rot: bits that are flipped -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, number", [(CLOSED, 1), (ACTIVE, 2)], ids=["closed", "active"])
@pytest.mark.parametrize("lay", [killed, closed_cleanly])
def test_a_flipped_bit_is_never_served(lay: Callable[[Path], Files], name: str, number: int, directory: Path) -> None:
    files = lay(directory)
    data = files[name]
    base_offset = 4 * (number - 1)
    for position in range(len(data)):
        with at(position):
            damaged = {**files, name: flipped(data, position)}
            restore(directory, damaged)
            lost = lost_to_a_flip(data, position, base_offset)
            assert refused_offsets(read_here(directory), range(8), number) == lost
            report = verify_log(DISK, str(directory))
            assert any(
                item.segment == number and item.position <= position < item.end_position for item in report.damage
            )
            assert snapshot(directory) == damaged
            # Damage at the very end keeps the owner out, unless a clean end lets it open without a look at the entries.
            if number == 2 and (position < SIZE or (lay is killed and max(lost) == 7)):
                with pytest.raises(CorruptData, match="segment 2, bytes"):
                    open_here(directory, OPTIONS)
            else:
                log = open_here(directory, OPTIONS)
                assert refused_offsets(log.view, range(8), number) == lost
                log.close()
            assert snapshot(directory)[name] == damaged[name]


@pytest.mark.parametrize(
    "name", [names.index_name(1), names.index_name(2), names.MARK, names.FLOOR, names.CHAIN], ids=lambda name: name
)
@pytest.mark.parametrize("lay", [killed, closed_cleanly, trimmed])
def test_a_flip_beside_the_segments_changes_nothing_or_is_refused(
    lay: Callable[[Path], Files], name: str, directory: Path
) -> None:
    files = lay(directory)
    expected = written(range(4 if names.FLOOR in files else 0, 8))
    refused_with = []
    for position in range(len(files.get(name, b""))):
        with at(position):
            damaged = {**files, name: flipped(files[name], position)}
            restore(directory, damaged)
            try:
                found = values(read_here(directory))
            except (CorruptData, UnsupportedVersion) as error:
                refused_with.append(error.field)
                with pytest.raises(type(error)):
                    open_here(directory, OPTIONS)
                assert snapshot(directory) == damaged
            else:
                assert found == expected
                assert owned(directory) == expected
    assert set(refused_with) == ({FIELDS[name]} if name in FIELDS and name in files else set())
