"""Verify: every edit of the past shows, and the perfect forgery shows against a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from flowmesh.base.errors import CorruptData
from flowmesh.format import block as block_format
from flowmesh.format import checkpoint as checkpoint_format
from flowmesh.format.checkpoint import Checkpoint
from flowmesh.format.segment import SIZE
from flowmesh.log.findings import Finding
from flowmesh.log.retention import Retention
from flowmesh.log.segment import Segment
from flowmesh.log.verify import VerifyReport, file_names, verify_log
from tests.log import damage
from tests.log.damage import (
    DISK,
    OTHER_CHAIN,
    append,
    batch,
    bounds,
    change_entry,
    cut,
    index_path,
    open_here,
    read_here,
    rechained,
    segment_path,
    toggle,
)

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
DATA = toggle(damage.DATA + 70)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """[0, 24) in four segments, closed cleanly."""
    log = open_here(tmp_path / "log")
    append(log, 12)
    log.close()
    return tmp_path / "log"


def verify(directory: Path, checkpoint: Checkpoint | None = None) -> VerifyReport:
    return verify_log(DISK, str(directory), checkpoint=checkpoint)


def signed(directory: Path) -> Checkpoint:
    view = read_here(directory)
    return checkpoint_format.sign(KEY, view.chain.hash, view.end_offset, view.active.last_block_hash, 0)


def places(report: VerifyReport) -> set[tuple[int, Finding]]:
    return {(item.segment, item.finding) for item in report.damage}


def test_a_sound_log_is_sound_and_counted(directory: Path) -> None:
    told: list[int] = []
    report = verify_log(DISK, str(directory), checkpoint=signed(directory), progress=told.append)
    assert report.sound
    assert report.notes == ()
    assert (report.start_offset, report.end_offset) == (0, 24)
    assert (report.segments, report.blocks, report.records, report.size_bytes) == (4, 12, 24, 4 * 792)
    assert report.unverified_bytes == 0
    assert sum(told) == report.size_bytes - 4 * SIZE


def test_what_is_past_the_durable_end_is_counted_apart(tmp_path: Path) -> None:
    log = open_here(tmp_path)
    append(log, 2)
    log.write([batch(4)])
    report = verify(tmp_path)
    assert report.sound
    assert (report.end_offset, report.unverified_bytes) == (4, 209)


@pytest.mark.parametrize("rehash", [False, True], ids=["checksum-made-right", "hash-made-right-too"])
@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_an_edit_of_any_block_shows(row: int, number: int, rehash: bool, directory: Path) -> None:
    change_entry(segment_path(directory, number), row, DATA, rehash=rehash)
    report = verify(directory)
    assert not report.sound
    assert {item.segment for item in report.damage} == {number}
    assert file_names(report) == [segment_path(directory, number).name]
    if not rehash:
        assert places(report) == {(number, Finding.BAD_HASH)}
        assert [(item.first_offset, item.end_offset) for item in report.damage] == [
            (6 * number - 6 + 2 * row, 6 * number - 4 + 2 * row)
        ]


@pytest.mark.parametrize("row", [0, 1, 2])
@pytest.mark.parametrize("number", [2, 4])
def test_a_block_taken_out_shows(number: int, row: int, directory: Path) -> None:
    path = segment_path(directory, number)
    data = path.read_bytes()
    begin, end = bounds(data)[row]
    path.write_bytes(data[:begin] + data[end:])
    report = verify(directory)
    assert number in {item.segment for item in report.damage}


def test_blocks_that_changed_places_show_even_with_their_positions_made_right(directory: Path) -> None:
    path = segment_path(directory, 2)
    data = path.read_bytes()
    (a, b), (_, c) = bounds(data)[:2]
    path.write_bytes(data[:a] + data[b:c] + data[a:b] + data[c:])
    for row, (begin, _) in enumerate(bounds(path.read_bytes())):
        place = (begin + block_format.PREFIX_SIZE).to_bytes(8, "little")
        change_entry(path, row, damage.put(damage.DATA_OFFSET, place))
    report = verify(directory)
    assert (2, Finding.WRONG_PREVIOUS_HASH) in places(report)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_segment_taken_out_shows(number: int, directory: Path) -> None:
    segment_path(directory, number).unlink()
    index_path(directory, number).unlink()
    report = verify(directory)
    assert places(report) == {(number, Finding.MISSING)}
    (lost,) = report.damage
    assert (lost.first_offset, lost.end_offset) == (6 * number - 6, 6 * number)


def test_the_last_segment_taken_out_shows(directory: Path) -> None:
    segment_path(directory, 4).unlink()
    assert places(verify(directory)) == {(4, Finding.MISSING)}


def test_segments_that_changed_places_show(directory: Path) -> None:
    second, third = segment_path(directory, 2).read_bytes(), segment_path(directory, 3).read_bytes()
    segment_path(directory, 2).write_bytes(third)
    segment_path(directory, 3).write_bytes(second)
    assert 2 in {item.segment for item in verify(directory).damage}
    view = read_here(directory)
    served = damage.values_of(block for offset in range(6) for block in view.read(offset, 1).blocks)
    assert served == damage.written(range(6))
    for offset in range(12, 24):
        with pytest.raises(CorruptData):
            view.read(offset)


@pytest.mark.parametrize("size", [100, SIZE, 374, 400, 791])
@pytest.mark.parametrize("number", [2, 4])
def test_a_cut_end_shows(number: int, size: int, directory: Path) -> None:
    cut(segment_path(directory, number), size)
    report = verify(directory)
    assert number in {item.segment for item in report.damage}
    assert report.unverified_bytes == 0, "what is left of a lost end was acknowledged"
    lost = min(item.first_offset for item in report.damage)
    assert lost == 6 * number - 6 + 2 * sum(end <= size for _, end in [(165, 374), (374, 583), (583, 792)])


def test_a_history_computed_anew_shows_against_a_checkpoint_alone(directory: Path) -> None:
    checkpoint = signed(directory)
    rechained([segment_path(directory, number) for number in (1, 2, 3, 4)], DATA)
    for path in (*directory.glob("*.idx"), directory / "durable.mark"):
        path.unlink()
    assert verify(directory).sound, "nothing inside a log tells this apart from the truth"
    report = verify(directory, checkpoint)
    assert not report.sound
    assert "history was rewritten" in (report.checkpoint_fault or "")


def test_a_checkpoint_from_inside_the_log_holds_after_more_was_appended(directory: Path) -> None:
    checkpoint = signed(directory)
    log = open_here(directory)
    append(log, 7)
    log.close()
    assert verify(directory, checkpoint).sound


def test_a_checkpoint_past_the_end_says_what_was_there(directory: Path) -> None:
    log = open_here(directory)
    append(log)
    later = signed(directory)
    log.close()
    for name in ("segment-000005.log", "segment-000005.idx", "durable.mark"):
        (directory / name).unlink()
    report = verify(directory, later)
    assert report.damage == ()
    assert report.checkpoint_fault == "the log ends at offset 24; at the checkpoint it had 26."


def test_a_checkpoint_below_the_floor_says_so(directory: Path) -> None:
    view = read_here(directory)
    early = checkpoint_format.sign(KEY, view.chain.hash, 2, view.read(0, 1).blocks[0].header.hash, 0)
    assert verify(directory, early).sound
    log = open_here(directory)
    log.trim(Retention(size_bytes=0))
    log.close()
    assert "trimmed" in (verify(directory, early).checkpoint_fault or "")


def test_a_checkpoint_of_another_log_is_told_apart(directory: Path) -> None:
    view = read_here(directory)
    other = checkpoint_format.sign(KEY, OTHER_CHAIN.hash, 24, view.active.last_block_hash, 0)
    assert "another chain" in (verify(directory, other).checkpoint_fault or "")


def test_a_checkpoint_of_another_key_is_refused(directory: Path) -> None:
    data = checkpoint_format.encode(signed(directory))
    trusted = OTHER_KEY.public_key().public_bytes_raw()
    with pytest.raises(CorruptData, match="another key"):
        checkpoint_format.decode(data, trusted)
    assert verify(directory, checkpoint_format.decode(data, KEY.public_key().public_bytes_raw())).sound


def test_whoever_runs_it_may_take_the_segments_in_any_order_of_work(directory: Path) -> None:
    taken: list[int] = []

    def backwards(work: Callable[[Segment], object], segments: Iterable[Segment]) -> list[object]:
        found = {}
        for segment in reversed(list(segments)):
            taken.append(segment.number)
            found[segment.number] = work(segment)
        return [found[number] for number in sorted(found)]

    change_entry(segment_path(directory, 2), 1, DATA)
    assert verify_log(DISK, str(directory), run=backwards) == verify(directory)  # type: ignore[arg-type]
    assert taken == [4, 3, 2, 1]
