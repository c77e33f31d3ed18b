"""Every row of recovery's decision table, brought about on a real disk: the report names it and the effect is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowmesh.base.errors import CorruptData, FlowMeshError, NotFound, UnsupportedVersion
from flowmesh.format import names
from flowmesh.log.findings import Action, Finding, Note, Where
from flowmesh.log.open_log import look
from flowmesh.log.recovery import DECISIONS
from flowmesh.log.verify import verify_log
from flowmesh.log.view import LogView
from tests.log import damage, recovery_rows
from tests.log.damage import DISK, about, open_here, read_here, segments_of, snapshot, values, written
from tests.log.recovery_rows import CASES, Case

Row = tuple[Where, Finding]
KEPT = {Action.USE, Action.IGNORE, Action.REBUILD}


def rows(*actions: Action) -> list[object]:
    return [
        pytest.param(row, case, id=f"{row[0].name}-{row[1].name}-{number}")
        for row, action in DECISIONS.items()
        if action in actions
        for number, case in enumerate(CASES.get(row, ()))
    ]


def lay(directory: Path, case: Case) -> dict[str, bytes]:
    case.lay(directory)
    case.damage(directory)
    return snapshot(directory)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_every_row_is_brought_about() -> None:
    assert set(CASES) == set(DECISIONS)
    assert all(CASES.values())


def expected_notes(notes: tuple[Note, ...], row: Row) -> list[Note]:
    """The notes of this row; a sound file, and a floor where nothing was ever trimmed, are not worth one."""
    found = about(notes, *row)
    if row[1] is Finding.SOUND or row == (Where.FLOOR_FILE, Finding.MISSING):
        assert found == []
        assert row[0] not in {note.where for note in notes}
    else:
        assert found
        assert {note.action for note in found} == {DECISIONS[row]}
        assert all(note.detail for note in found)
    return found


def served_from(directory: Path) -> int:
    return 6 if (directory / names.FLOOR).exists() else 0


@pytest.mark.parametrize("row, case", rows(*KEPT))
def test_what_is_sound_or_made_anew_serves_everything(row: Row, case: Case, directory: Path) -> None:
    files = lay(directory, case)
    everything = written(range(served_from(directory), 24))
    seen = look(DISK, str(directory))
    expected_notes(seen.notes, row)
    acknowledged = 20 if case.lay is recovery_rows.killed_while_writing and row[1] is Finding.SOUND else 24
    assert values(read_here(directory)) == written(range(served_from(directory), acknowledged))
    assert snapshot(directory) == files, "who only looks changes nothing"

    log = open_here(directory)
    assert len(expected_notes(log.notes, row)) == len(about(seen.notes, *row))
    assert values(log.view) == everything
    assert log.view.damage == ()
    assert segments_of(snapshot(directory)) == segments_of(files)
    damage.append(log)
    log.close()
    assert values(read_here(directory)) == everything | written(range(24, 26))
    assert verify_log(DISK, str(directory)).sound


@pytest.mark.parametrize("row, case", rows(Action.IGNORE))
def test_what_is_not_of_this_log_is_left_alone(row: Row, case: Case, directory: Path) -> None:
    files = lay(directory, case)
    strays = {name: data for name, data in files.items() if names.classify(name)[0] is names.FileKind.STRAY}
    open_here(directory).close()
    assert bool(strays) == (row[0] is Where.DIRECTORY)
    assert strays.items() <= snapshot(directory).items()


@pytest.mark.parametrize("row, case", rows(Action.REBUILD))
def test_an_index_is_made_anew_byte_for_byte(row: Row, case: Case, directory: Path) -> None:
    case.lay(directory)
    before = snapshot(directory)
    case.damage(directory)
    (wrong,) = [name for name in before if snapshot(directory).get(name) != before[name]]
    log = open_here(directory)
    if wrong == names.index_name(3):
        assert (directory / wrong).read_bytes() == before[wrong]
    log.close()
    assert (directory / wrong).read_bytes() == before[wrong]
    with_index = open_here(directory)
    assert about(with_index.notes, Where.INDEX_FILE) == []
    with_index.close()


@pytest.mark.parametrize("row, case", rows(Action.CREATE))
def test_a_log_begins_only_where_there_is_none_and_when_asked(row: Row, case: Case, directory: Path) -> None:
    files = lay(directory, case)
    with pytest.raises(NotFound):
        read_here(directory)
    assert snapshot(directory) == files
    log = open_here(directory)
    damage.append(log)
    assert log.view.chain == damage.CHAIN
    log.close()
    assert values(read_here(directory)) == written(range(2))


@pytest.mark.parametrize("row, case", rows(Action.REMOVE))
def test_leftovers_are_removed_by_the_owner_alone(row: Row, case: Case, directory: Path) -> None:
    files = lay(directory, case)
    everything = written(range(served_from(directory), 24))
    assert expected_notes(look(DISK, str(directory)).notes, row)
    assert values(read_here(directory)) == everything
    assert snapshot(directory) == files
    log = open_here(directory)
    found = expected_notes(log.notes, row)
    gone = set(files) - set(snapshot(directory))
    assert gone == {note.detail for note in found}
    assert values(log.view) == everything
    damage.append(log)
    log.close()
    again = open_here(directory)
    assert again.notes == ()
    assert values(again.view) == everything | written(range(24, 26))
    again.close()


@pytest.mark.parametrize("row, case", rows(Action.CUT))
def test_a_torn_tail_is_cut_to_the_last_whole_entry(row: Row, case: Case, directory: Path) -> None:
    files = lay(directory, case)
    kept = written(range(case.lost.start))
    assert values(read_here(directory)).items() <= kept.items()
    assert snapshot(directory) == files

    log = open_here(directory)
    assert len(expected_notes(log.notes, row)) == 1
    assert values(log.view) == kept
    path = damage.segment_path(directory, case.segment)
    end = damage.bounds(path.read_bytes())[-1][1]
    assert path.read_bytes() == files[path.name][:end]
    assert {**segments_of(files), path.name: b""} == {**segments_of(snapshot(directory)), path.name: b""}
    damage.append(log)
    log.close()
    assert values(read_here(directory)) == written(range(case.lost.start + 2))
    assert verify_log(DISK, str(directory)).sound


def assert_lost(view: LogView, case: Case) -> None:
    """Inside the range a read names segment, bytes and offsets; outside of it everything is as it was written."""
    for offset in case.lost:
        with pytest.raises(CorruptData) as refused:
            view.read(offset)
        text = str(refused.value)
        assert f"segment {case.segment}, bytes [" in text
        assert f"offsets [{case.lost.start}, " in text
    for offset in range(view.start_offset, view.end_offset):
        if offset not in case.lost:
            blocks = view.read(offset).blocks
            assert damage.values_of(blocks) == written(range(blocks[0].base_offset, blocks[-1].end_offset))
            assert blocks[0].base_offset <= offset < blocks[0].end_offset


@pytest.mark.parametrize("row, case", rows(Action.QUARANTINE))
def test_rot_is_quarantined_and_the_rest_is_served(row: Row, case: Case, directory: Path) -> None:
    files = lay(directory, case)
    expected_notes(look(DISK, str(directory)).notes, row)
    assert_lost(read_here(directory), case)
    assert snapshot(directory) == files

    log = open_here(directory)
    expected_notes(log.notes, row)
    assert_lost(log.view, case)
    end_offset = log.view.end_offset
    damage.append(log, 4)
    assert values(log.view, end_offset) == written(range(end_offset, end_offset + 8))
    log.close()
    after = segments_of(snapshot(directory))
    for name, data in segments_of(files).items():
        assert after[name].startswith(data), "rot never deletes or truncates a byte"

    report = verify_log(DISK, str(directory))
    assert case.segment in {item.segment for item in report.damage}
    again = open_here(directory)
    assert_lost(again.view, case)
    again.close()


@pytest.mark.parametrize("row, case", rows(Action.READ_ONLY))
def test_a_lost_end_refuses_appends_and_can_still_be_read(row: Row, case: Case, directory: Path) -> None:
    files = lay(directory, case)
    with pytest.raises(CorruptData, match=r"acknowledged data is missing .*segment \d") as refused:
        open_here(directory)
    assert f"offsets [{case.lost.start}, " in str(refused.value)
    assert snapshot(directory) == files, "nothing is changed"
    seen = look(DISK, str(directory))
    expected_notes(seen.notes, row)
    assert seen.read_only is not None
    assert (seen.read_only.segment, seen.read_only.first_offset) == (case.segment, case.lost.start)
    if seen.closed:
        view = read_here(directory)
        assert view.end_offset == case.lost.start
        assert_lost(view, case)
        with pytest.raises(CorruptData):
            values(view)
    else:
        with pytest.raises(CorruptData, match="segment"):
            read_here(directory)
    assert case.segment in {item.segment for item in verify_log(DISK, str(directory)).damage}
    assert snapshot(directory) == files


@pytest.mark.parametrize("row, case", rows(Action.REFUSE))
def test_a_refusal_names_its_reason_and_changes_nothing(row: Row, case: Case, directory: Path) -> None:
    where, finding = row
    files = lay(directory, case)
    error: type[FlowMeshError] = UnsupportedVersion if finding is Finding.UNKNOWN_VERSION else CorruptData
    readers = (read_here, lambda path: verify_log(DISK, str(path)))
    # Who only looks ends at the durable mark, and does not see what lies past it.
    for way_in in (open_here, *(readers if where is not Where.TAIL_ENTRY else ())):
        with pytest.raises(error) as refused:
            way_in(directory)
        assert f"the {where.value} is {finding.value}" in str(refused.value)
        assert refused.value.field == where.name.lower()
        assert "Nothing was changed" in str(refused.value)
        assert {**snapshot(directory), names.LOCK: b""} == {**files, names.LOCK: b""}
