"""Every error code has one status, and every refusal one shape."""

import msgspec
import pytest

from flowmesh.api.http import problems
from flowmesh.api.http.outcomes import refusals
from flowmesh.api.http.problems import MEANINGS, HeadTooLarge, MethodUnknown, Problem
from flowmesh.base import errors
from flowmesh.base.errors import ErrorCode, FlowMeshError, OffsetOutOfRange
from flowmesh.operations.table import OPERATIONS


def example(code: ErrorCode) -> FlowMeshError:
    if code is ErrorCode.OFFSET_OUT_OF_RANGE:
        return OffsetOutOfRange(5, 7, 9)
    kind = next(
        kind for kind in vars(errors).values() if isinstance(kind, type) and getattr(kind, "code", None) is code
    )
    error: FlowMeshError = kind("it went wrong.", field="name", hint="Try another.")
    return error


def test_no_code_is_without_a_status_and_no_status_without_a_code() -> None:
    assert MEANINGS.keys() == set(ErrorCode)
    assert all(400 <= meaning.status < 600 and meaning.title for meaning in MEANINGS.values())


@pytest.mark.parametrize("code", ErrorCode)
def test_a_problem_says_what_which_field_and_what_to_do(code: ErrorCode) -> None:
    status, headers, body = problems.rendered(example(code))
    found = msgspec.json.decode(body, type=Problem)
    assert dict(headers)[b"content-type"] == b"application/problem+json"
    assert dict(headers)[b"content-length"] == b"%d" % len(body)
    assert (found.code, found.status, status) == (code.value, status, MEANINGS[code].status)
    assert found.detail
    assert found.field
    assert found.hint


def test_what_is_not_known_is_left_out() -> None:
    _, _, body = problems.rendered(FlowMeshError("no."))
    assert msgspec.json.decode(body).keys() == {"type", "title", "status", "code", "detail"}


def test_an_offset_out_of_range_names_the_range() -> None:
    _, _, body = problems.rendered(OffsetOutOfRange(5, 7, 9))
    found = msgspec.json.decode(body, type=Problem)
    assert (found.start_offset, found.end_offset) == (7, 9)


def test_refusals_that_only_http_knows_keep_the_code_and_say_more_with_the_status() -> None:
    status, headers, _ = problems.rendered(MethodUnknown("BREW", ["GET", "PUT"]))
    assert (status, dict(headers)[b"allow"]) == (405, b"GET, PUT")
    assert problems.status_of(HeadTooLarge("too many headers.")) == 431


def test_every_code_can_be_the_end_of_some_operation_or_is_known_not_to() -> None:
    documented = {code for operation in OPERATIONS for codes in refusals(operation).values() for code in codes}
    assert {code.value for code in ErrorCode} - documented == {
        ErrorCode.ALREADY_OPEN,  # of a directory: before there is a server
        ErrorCode.SUBSCRIPTION_STALLED,  # a connection that is not read is dropped; there is nowhere to say why
    }
