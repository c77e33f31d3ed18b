"""The permission matrix, made from the table of operations: every operation by everybody who might ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from flowmesh.access.permissions import Permission
from flowmesh.operations.table import OPERATIONS, Operation, Scope
from tests.api.http.conftest import ServedNode, problem


class Call(NamedTuple):
    """How to ask for an operation, and with what status it ends for those who may."""

    path: str
    status: int
    json: Any = None
    on_the_operator_only: bool = False


STREAM = "/v1/matrix/in/streams/one"
CALLS: dict[str, Call] = {
    "node.describe": Call("/v1/node", 200),
    "tenant.create": Call("/v1/tenants/matrix-new", 201, on_the_operator_only=True),
    "tenant.list": Call("/v1/tenants", 200),
    "tenant.delete": Call("/v1/tenants/matrix-new", 204, on_the_operator_only=True),
    "token.create": Call("/v1/tokens", 201, {"tenant": "matrix", "namespaces": ["in"], "permissions": ["token.admin"]}),
    "token.list": Call("/v1/tokens", 200),
    "token.revoke": Call("/v1/tokens/{spare}", 204),
    "token.rotate": Call("/v1/tokens/{spare}/rotate", 200, {}),
    "stream.create": Call("/v1/matrix/in/streams/new", 201, {}),
    "stream.describe": Call(STREAM, 200),
    "stream.alter": Call(STREAM, 200, {"retention_bytes": 5_000_000}),
    "stream.delete": Call("/v1/matrix/in/streams/new", 204),
    "stream.list": Call("/v1/matrix/in/streams", 200),
    "stream.append": Call(f"{STREAM}/records", 200, {"value": "x"}),
    "stream.read": Call(f"{STREAM}/records", 200),
    "stream.find": Call(f"{STREAM}/offset", 200),
    "stream.subscribe": Call(f"{STREAM}/events?at=earliest", 200),
    "stream.split": Call(f"{STREAM}/splits", 200),
    "group.commit": Call(f"{STREAM}/groups/known", 200, {"offsets": {"0": 0}}),
    "group.describe": Call(f"{STREAM}/groups/known", 200),
    "group.list": Call(f"{STREAM}/groups", 200),
    "group.delete": Call(f"{STREAM}/groups/spare", 204),
}
SCOPED = [operation for operation in OPERATIONS if operation.scope in (Scope.STREAM, Scope.NAMESPACE)]


def operations(chosen: list[Operation] | None = None) -> pytest.MarkDecorator:
    found = OPERATIONS if chosen is None else chosen
    return pytest.mark.parametrize("operation", found, ids=lambda operation: operation.name)


class Matrix:
    def __init__(self, served: ServedNode, admin: httpx.Client) -> None:
        self.served = served
        self.admin = admin

    def token(self, *permissions: str, tenant: str = "matrix", namespace: str = "in") -> str:
        form = {"tenant": tenant, "namespaces": [namespace], "permissions": permissions}
        made = self.admin.post("/v1/tokens", json=form).raise_for_status().json()
        text: str = made["token"]
        return text

    def ask(self, operation: Operation, token: str) -> httpx.Response:
        call = CALLS[operation.name]
        spare = self.token(operation.permission.value).partition(".")[0]
        with (
            self.served.client(token) as client,
            client.stream(operation.method, call.path.format(spare=spare), json=call.json) as response,
        ):
            if "event-stream" not in response.headers.get("content-type", ""):
                response.read()
            return response

    def prepare(self, operation: Operation) -> None:
        """What is to be made is not there; what is to be deleted is."""
        path = CALLS[operation.name].path
        if operation.name.endswith((".create", ".delete")) and operation.method in ("PUT", "DELETE"):
            self.admin.delete(path)
            if operation.method == "DELETE":
                self.admin.put(path).raise_for_status()


@pytest.fixture(scope="module")
def matrix(served: ServedNode) -> Iterator[Matrix]:
    with served.client() as admin:
        for name in ("matrix", "matrix-other"):
            admin.put(f"/v1/tenants/{name}").raise_for_status()
        admin.put(STREAM).raise_for_status()
        admin.put(f"{STREAM}/groups/known").raise_for_status()
        yield Matrix(served, admin)


def test_the_matrix_has_a_row_for_every_operation() -> None:
    assert CALLS.keys() == {operation.name for operation in OPERATIONS}


@operations()
def test_nobody_gets_in_without_a_token(matrix: Matrix, operation: Operation) -> None:
    found = matrix.ask(operation, "")
    assert problem(found)["code"] == "UNAUTHENTICATED"
    assert found.headers["www-authenticate"] == "Bearer"


@operations()
def test_a_wrong_secret_is_as_good_as_none(matrix: Matrix, operation: Operation) -> None:
    identity = matrix.token("admin").partition(".")[0]
    assert problem(matrix.ask(operation, f"{identity}.wrong"))["code"] == "UNAUTHENTICATED"


@operations(SCOPED)
@pytest.mark.parametrize("tenant, namespace", [("matrix-other", "*"), ("matrix", "out")], ids=["tenant", "namespace"])
def test_elsewhere_it_looks_as_if_nothing_were_there(
    matrix: Matrix, operation: Operation, tenant: str, namespace: str
) -> None:
    token = matrix.token("admin", tenant=tenant, namespace=namespace)
    real = problem(matrix.ask(operation, token))
    assert real["code"] == "NOT_FOUND"
    call = CALLS[operation.name]
    with matrix.served.client(token) as client:
        imagined = client.request(operation.method, call.path.replace("matrix", "matrix-none"), json=call.json)
    assert problem(imagined) == {**real, "detail": real["detail"].replace("matrix/", "matrix-none/")}


@operations()
def test_the_permission_is_needed(matrix: Matrix, operation: Operation) -> None:
    others = [permission.value for permission in Permission if permission not in (operation.permission, "admin")]
    found = problem(matrix.ask(operation, matrix.token(*others)))
    assert found["code"] == "FORBIDDEN"
    assert operation.permission.value in found["hint"]


@operations()
@pytest.mark.parametrize("given", ["exactly", "admin"])
def test_with_the_permission_it_is_done(matrix: Matrix, operation: Operation, given: str) -> None:
    matrix.prepare(operation)
    call = CALLS[operation.name]
    permission = operation.permission.value if given == "exactly" else "admin"
    if call.on_the_operator_only:
        own = matrix.ask(operation, matrix.token(permission))
        assert problem(own)["code"] == "FORBIDDEN"
        token = matrix.token(permission, tenant="*", namespace="*")
    else:
        token = matrix.token(permission)
    assert matrix.ask(operation, token).status_code == call.status


@pytest.mark.parametrize("operation", ["token.revoke", "token.rotate"])
def test_tokens_of_others_are_not_there(matrix: Matrix, operation: str) -> None:
    target = matrix.token("admin", tenant="matrix-other", namespace="*").partition(".")[0]
    call = CALLS[operation]
    with matrix.served.client(matrix.token("admin")) as client:
        method = "DELETE" if operation == "token.revoke" else "POST"
        real = client.request(method, call.path.format(spare=target), json=call.json)
        imagined = client.request(method, call.path.format(spare="x" * 16), json=call.json)
    assert problem(real)["status"] == 404
    assert problem(imagined) == {**problem(real), "detail": f"there is no token {'x' * 16!r}."}


def test_nobody_gives_away_more_than_they_have(matrix: Matrix) -> None:
    with matrix.served.client(matrix.token("token.admin", "stream.read")) as client:
        for form in (
            {"tenant": "matrix", "namespaces": ["in"], "permissions": ["stream.write"]},
            {"tenant": "matrix", "namespaces": ["in"], "permissions": ["admin"]},
            {"tenant": "matrix", "namespaces": ["*"], "permissions": ["stream.read"]},
        ):
            assert problem(client.post("/v1/tokens", json=form))["code"] == "FORBIDDEN"
        for tenant in ("*", "matrix-other", "matrix-none"):
            form = {"tenant": tenant, "namespaces": ["in"], "permissions": ["stream.read"]}
            assert problem(client.post("/v1/tokens", json=form))["code"] in ("NOT_FOUND", "FORBIDDEN")
