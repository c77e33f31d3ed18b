"""File names: each has one meaning, and a name of another shape is left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.base.limits import SEGMENT_NUMBER_MAX
from flowmesh.format import names
from flowmesh.format.names import FileKind


@given(st.integers(1, SEGMENT_NUMBER_MAX))
def test_numbered_names_round_trip(number: int) -> None:
    assert names.classify(names.segment_name(number)) == (FileKind.SEGMENT, number)
    assert names.classify(names.index_name(number)) == (FileKind.INDEX, number)


@pytest.mark.parametrize(
    "number, name",
    [(1, "segment-000001.log"), (999_999, "segment-999999.log"), (1_000_000, "segment-1000000.log")],
)
def test_segment_names(number: int, name: str) -> None:
    assert names.segment_name(number) == name


@pytest.mark.parametrize("number", [0, -1, SEGMENT_NUMBER_MAX + 1])
def test_there_is_no_such_segment_number(number: int) -> None:
    with pytest.raises(AssertionError):
        names.segment_name(number)


@pytest.mark.parametrize(
    "name, kind",
    [
        ("chain.json", FileKind.CHAIN),
        ("floor.json", FileKind.FLOOR),
        ("durable.mark", FileKind.MARK),
        ("lock", FileKind.LOCK),
        ("snapshot-00000000000000000042.bin", FileKind.SNAPSHOT),
        ("chain.json.tmp", FileKind.TEMPORARY),
        ("segment-000001.log.tmp", FileKind.TEMPORARY),
        ("segment-000001.idx.tmp", FileKind.TEMPORARY),
    ],
)
def test_fixed_and_temporary_names(name: str, kind: FileKind) -> None:
    assert names.classify(name) == (kind, 0)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "snapshot-42.bin",
        "segment-000000.log",
        "segment-00001.log",
        "segment-0000001.log",
        "segment-1000000000.log",
        "segment-000001.LOG",
        "Segment-000001.log",
        "segment-000001.log\n",
        "segment-000001.log.bak",
        "segment-٠٠٠٠٠١.log",
        "xsegment-000001.log",
        "segment--00001.log",
        "chain.json~",
        "CHAIN.JSON",
        ".chain.json",
    ],
)
def test_a_name_of_another_shape_is_stray(name: str) -> None:
    assert names.classify(name) == (FileKind.STRAY, 0)


@given(st.text() | st.from_regex(r"segment-\d+\.(log|idx)\n?"))
def test_a_numbered_name_is_the_one_name_of_its_number(name: str) -> None:
    kind, number = names.classify(name)
    if kind is FileKind.SEGMENT:
        assert names.segment_name(number) == name
    elif kind is FileKind.INDEX:
        assert names.index_name(number) == name
    else:
        assert number == 0
