"""Errors: one code each, a message with what to do next, and every code in use."""

import pickle

import pytest

from flowmesh.base import errors
from flowmesh.base.errors import ErrorCode, FlowMeshError


def kinds() -> list[type[FlowMeshError]]:
    found, waiting = [], [FlowMeshError]
    while waiting:
        kind = waiting.pop()
        found.append(kind)
        waiting.extend(kind.__subclasses__())
    return [kind for kind in found if kind.__module__ == errors.__name__]


def test_codes_are_their_own_names() -> None:
    assert all(code.value == code.name for code in ErrorCode)


def test_every_code_has_one_error_and_every_error_a_code_of_its_own() -> None:
    codes = [kind.code for kind in kinds() if kind is not FlowMeshError]
    assert sorted(codes) == sorted(ErrorCode)


def test_the_hint_is_part_of_what_is_shown() -> None:
    error = errors.BadRequest("a is no number.", field="a", hint="Write 1.")
    assert str(error) == "a is no number. Write 1."
    assert (error.message, error.field, error.hint) == ("a is no number.", "a", "Write 1.")
    assert str(errors.BadRequest("a is no number.")) == "a is no number."


def test_an_offset_out_of_range_names_the_range() -> None:
    error = errors.OffsetOutOfRange(9, 3, 7)
    assert (error.offset, error.start_offset, error.end_offset, error.field) == (9, 3, 7, "offset")
    assert "offset 9" in str(error)
    assert "[3, 7)" in str(error)


@pytest.mark.parametrize(
    "kind", [kind for kind in kinds() if kind is not errors.OffsetOutOfRange], ids=lambda kind: kind.__name__
)
def test_errors_survive_a_trip_between_processes(kind: type[FlowMeshError]) -> None:
    error = pickle.loads(pickle.dumps(kind("what is wrong.", field="a", hint="Do this.")))
    assert type(error) is kind
    assert str(error) == "what is wrong. Do this."
