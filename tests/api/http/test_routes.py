"""Paths: every operation has one, each part is decoded once, and nothing that is encoded becomes another path."""

import pytest

from flowmesh.api.http import routes
from flowmesh.base.errors import BadRequest, UnknownCommand
from flowmesh.operations.table import OPERATIONS, Operation


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_is_found_by_its_route(operation: Operation) -> None:
    values = {name: f"x-{name}" for name in routes.path_fields(operation)}
    found = routes.match(operation.route.format(**values).encode())
    assert found.methods[operation.method] is operation
    assert found.fields == values


@pytest.mark.parametrize(
    "path, fields",
    [
        (b"/v1/t/n/streams/a%62c", {"tenant": "t", "namespace": "n", "name": "abc"}),
        (b"/v1/t/n/streams/a%2562", {"tenant": "t", "namespace": "n", "name": "a%62"}),
        (b"/v1/t/n/streams/a%2Fb", {"tenant": "t", "namespace": "n", "name": "a/b"}),
        (b"/v1/t/n/streams/%2e%2e", {"tenant": "t", "namespace": "n", "name": ".."}),
        (b"/v1/t/n%2Fstreams%2Fx/streams", {"tenant": "t", "namespace": "n/streams/x"}),
        (b"/v1/t/n/streams/a%00", {"tenant": "t", "namespace": "n", "name": "a\0"}),
    ],
)
def test_each_part_is_decoded_once_and_stays_one_part(path: bytes, fields: dict[str, str]) -> None:
    assert routes.match(path).fields == fields


@pytest.mark.parametrize(
    "path", [b"", b"/", b"/v1", b"/v1/node/", b"//v1/node", b"/V1/node", b"/v1/t/n/streams/a/b/c", b"/v1//n/queues"]
)
def test_other_paths_lead_nowhere(path: bytes) -> None:
    with pytest.raises(UnknownCommand):
        routes.match(path)


def test_a_path_that_is_no_text_is_refused() -> None:
    with pytest.raises(BadRequest):
        routes.match(b"/v1/t/n/streams/%ff")
