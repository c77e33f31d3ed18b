"""The OpenAPI document is valid, complete, and true: schemathesis asks what it describes, and the answers fit it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import httpx
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi import checks

from flowmesh.api.http import openapi
from flowmesh.api.http.pages import PATHS
from flowmesh.api.http.problems import MEANINGS
from flowmesh.operations.table import BY_NAME, OPERATIONS
from tests.api.http.conftest import BASE, ServedNode, append, make_stream

DOCUMENT = msgspec.json.decode(openapi.encoded())
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
DESCRIBED: dict[str, Any] = {found.ok().label: found.ok() for found in cast(Any, SCHEMA.get_all_operations())}
CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
STREAM = {"tenant": "default", "namespace": "tests", "name": "described"}
GROUP = "groups/readers"
EXAMPLES = 100


def test_the_document_is_a_valid_one(client: httpx.Client) -> None:
    SCHEMA.validate()
    assert DOCUMENT["openapi"].startswith("3.1")
    assert client.get("/openapi.json").raise_for_status().json() == DOCUMENT


def test_every_operation_and_page_is_described_and_nothing_else() -> None:
    labels = {f"{operation.method} {operation.route}" for operation in OPERATIONS} | {f"GET {path}" for path in PATHS}
    assert DESCRIBED.keys() == labels


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_operation_says_how_it_can_end(operation: Any) -> None:
    described = DOCUMENT["paths"][operation.route][operation.method.lower()]
    assert described["operationId"] == operation.name
    statuses = {int(status) for status in described["responses"]}
    assert len([status for status in statuses if status < 300]) == 1
    assert statuses >= {400, 401, 403, 404, 405, 408, 413, 429, 431, 500, 503}
    assert {status for status in statuses if status >= 500} <= {meaning.status for meaning in MEANINGS.values()}
    for status, answer in described["responses"].items():
        if int(status) >= 400:
            assert answer["content"].keys() == {"application/problem+json"}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_field_says_what_it_means(operation: Any) -> None:
    described = DOCUMENT["paths"][operation.route][operation.method.lower()]
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    fields = {found["name"]: found for found in described["parameters"] if found["in"] == "query"}
    notes = {name: found["schema"].get("description") for name, found in fields.items()}
    notes |= {name: found.get("description") for name, found in body.get("properties", {}).items()}
    assert [name for name, note in notes.items() if not note] == []


@pytest.fixture(scope="module")
def described(served: ServedNode) -> Iterator[ServedNode]:
    with served.client() as client:
        stream = make_stream(client, STREAM["name"], partitions=2)
        append(client, stream, "a", {"b": 1}, None)
        client.put(f"{stream}/groups/readers", json={"offsets": {"0": 0}, "hold_s": 60}).raise_for_status()
        yield served


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("label", DESCRIBED)
def test_what_is_described_is_what_is_answered(described: ServedNode, label: str) -> None:
    on_the_stream = {f"{BY_NAME[name].method} {BY_NAME[name].route}" for name in ("stream.describe", "stream.alter",
                     "stream.append", "stream.read", "stream.find", "stream.split", "group.list",
                     "group.commit", "group.describe")}  # fmt: skip
    tried = []

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
    @given(case=DESCRIBED[label].as_strategy(), there=st.booleans())
    def ask(case: Any, there: bool) -> None:
        if there and label in on_the_stream:
            case.path_parameters = {**case.path_parameters, **STREAM}
        if "wait_ms" in (case.query or {}):
            case.query["wait_ms"] = 5
        answer = case.call(base_url=described.url, headers={"authorization": f"Bearer {described.token}"}, timeout=20)
        case.validate_response(answer, checks=CHECKS)
        tried.append(answer.status_code)

    ask()
    assert tried


def test_answers_that_carry_records_fit_the_document(described: ServedNode) -> None:
    """By hand, because what schemathesis makes up rarely gets as far as this."""
    with described.client() as client:
        stream = "/v1/default/tests/streams/described"
        for path in (BASE, stream, *(f"{stream}/{part}" for part in ("records", "offset", "splits", "groups", GROUP))):
            answer = client.get(path).raise_for_status()
            template = path.replace("default/tests", "{tenant}/{namespace}").replace("described", "{name}")
            SCHEMA[template.replace(GROUP, "groups/{group}")]["GET"].validate_response(answer)
