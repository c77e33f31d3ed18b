"""The page of errors is complete and true."""

import inspect

from flowmesh.api.http.problems import MEANINGS
from flowmesh.base import errors
from flowmesh.base.errors import ErrorCode, FlowMeshError
from tests.docs.pages import rows


def classes() -> dict[ErrorCode, type[FlowMeshError]]:
    """The exception that stands for each code: the one that `base.errors` declares first."""
    found: dict[ErrorCode, type[FlowMeshError]] = {}
    for value in vars(errors).values():
        if inspect.isclass(value) and issubclass(value, FlowMeshError) and value is not FlowMeshError:
            found.setdefault(value.code, value)
    return found


def test_every_code_is_on_the_page_with_its_status_and_meaning() -> None:
    declared = classes()
    assert declared.keys() == set(ErrorCode), "each code has an exception"
    expected = [
        [code.value, str(MEANINGS[code].status), " ".join((declared[code].__doc__ or "").split())] for code in ErrorCode
    ]
    assert rows("reference/errors.md", "code") == expected
