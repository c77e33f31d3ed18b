"""Every operation of the table with every token that is too weak for it, on both wires: refused, in the same words.

Nothing here knows an operation by name: what is added to the table is asked for as soon as it is there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import msgspec
import pytest

from flowmesh.access.permissions import Permission
from flowmesh.format.frame import FrameKind
from flowmesh.operations.table import OPERATIONS, Operation, Scope
from flowmesh.testing import NodeProcess
from tests.api.frames.wire import Wire, content
from tests.withstand.talk import Ports

NAMES: dict[str, Any] = {
    "tenant": "owned", "namespace": "in", "name": "one", "group": "g", "id": "none", "permissions": ["stream.read"],
}  # fmt: skip
ADMISSION = {"UNAUTHENTICATED", "FORBIDDEN", "NOT_FOUND"}


class Weak(NamedTuple):
    """A token, and what it hears when it asks for an operation; None where it is strong enough."""

    name: str
    form: dict[str, Any]
    verdict: Callable[[Operation], str | None]


def without(permission: Permission) -> Weak:
    """All there is but one; the operations that need that one are too much."""
    others = [each.value for each in Permission if each not in (permission, Permission.ADMIN)]
    form = {"tenant": "owned", "namespaces": ["in"], "permissions": others}
    return Weak(
        f"without {permission}", form, lambda operation: "FORBIDDEN" if operation.permission is permission else None
    )


def elsewhere(name: str, **place: Any) -> Weak:
    """May do everything, in another place."""
    form = {"tenant": "owned", "namespaces": ["*"], "permissions": ["admin"], **place}

    def verdict(operation: Operation) -> str | None:
        if operation.scope in (Scope.STREAM, Scope.NAMESPACE):
            return "NOT_FOUND"
        if operation.scope is Scope.TOKENS and "tenant" in place and "tenant" in operation.request.__struct_fields__:
            return "NOT_FOUND"
        return "FORBIDDEN" if operation.scope is Scope.NODE and operation.method != "GET" else None

    return Weak(name, form, verdict)


WEAK = [
    *(without(permission) for permission in Permission if permission is not Permission.ADMIN),
    elsewhere("another tenant's", tenant="other"),
    elsewhere("another namespace's", namespaces=["out"]),
]


class Both:
    """One operation at a time, asked for over both wires with one token."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.ports = Ports.of(node.http_url, node.url)
        self.http = httpx.Client(base_url=node.http_url, timeout=60, trust_env=False)

    def make(self, form: dict[str, Any]) -> str:
        made = self.http.post("/v1/tokens", json=form, headers=bearer(self.node.token)).raise_for_status()
        return str(made.json()["token"])

    def over_http(self, operation: Operation, token: str | None) -> str:
        names = fields_of(operation)
        path = operation.route.format_map(names)
        rest = {name: value for name, value in names.items() if f"{{{name}}}" not in operation.route}
        body = None
        if operation.method in ("POST", "PUT", "PATCH"):
            body = {"value": "x"} if operation.name == "stream.append" else rest
        elif rest:
            path += "?" + urlencode(rest)
        with self.http.stream(operation.method, path, json=body, headers=bearer(token)) as answer:
            if answer.status_code < 300:
                return "OK"
            code: str = msgspec.json.decode(answer.read())["code"]
            return code

    def over_frames(self, operation: Operation, wire: Wire) -> str:
        header = fields_of(operation)
        number = wire.send(FrameKind.REQUEST, operation.code, header)
        while (answer := wire.receive()).correlation != number or answer.kind == FrameKind.PUSH:
            pass
        return "OK" if answer.kind == FrameKind.REPLY else str(content(answer)["code"])

    def greeted(self, token: str) -> Wire:
        return Wire(self.ports.frames, token)


def fields_of(operation: Operation) -> dict[str, Any]:
    return {name: value for name, value in NAMES.items() if name in operation.request.__struct_fields__}


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with NodeProcess(tmp_path_factory.mktemp("matrix") / "data") as node:
        found = Both(node)
        for path in ("/v1/tenants/owned", "/v1/tenants/other", "/v1/owned/in/streams/one"):
            found.http.put(path, headers=bearer(node.token)).raise_for_status()
        yield found
        found.http.close()
        assert "Traceback" not in node.log_file.read_text()


@pytest.mark.parametrize("weak", WEAK, ids=lambda weak: weak.name)
def test_a_token_that_is_too_weak_is_refused_on_both_wires(both: Both, weak: Weak) -> None:
    token, refused = both.make(weak.form), 0
    with both.greeted(token) as wire:
        for operation in OPERATIONS:
            expected = weak.verdict(operation)
            if expected is not None:
                refused += 1
                assert both.over_http(operation, token) == expected, operation.name
                assert both.over_frames(operation, wire) == expected, operation.name
    assert refused > 0


def test_without_a_token_and_with_a_wrong_one_nothing_is_done(both: Both) -> None:
    identity = both.make({"tenant": "*", "permissions": ["admin"]}).partition(".")[0]
    for operation in OPERATIONS:
        assert both.over_http(operation, None) == "UNAUTHENTICATED", operation.name
        assert both.over_http(operation, f"{identity}.wrong") in ("UNAUTHENTICATED", "TOO_MANY_REQUESTS")
        with Wire(both.ports.frames) as wire:
            wire.send(FrameKind.REQUEST, operation.code, fields_of(operation))
            assert wire.last_words()["code"] == "UNAUTHENTICATED", operation.name


def test_a_token_that_is_no_longer_good_is_refused_on_both_wires(both: Both) -> None:
    """Revoked, and rotated away: also on the connection that it had opened."""
    admin = bearer(both.node.token)
    form = {"tenant": "*", "permissions": ["admin"]}
    for ending in ("revoke", "rotate"):
        token = both.make(form)
        identity = token.partition(".")[0]
        with both.greeted(token) as wire:
            if ending == "revoke":
                both.http.delete(f"/v1/tokens/{identity}", headers=admin).raise_for_status()
            else:
                form_of_end = {"overlap_s": 0}
                both.http.post(f"/v1/tokens/{identity}/rotate", json=form_of_end, headers=admin).raise_for_status()
            wire.send(FrameKind.REQUEST, OPERATIONS[0].code, {})
            assert wire.last_words()["code"] == "UNAUTHENTICATED"
        for operation in OPERATIONS:
            assert both.over_http(operation, token) in ("UNAUTHENTICATED", "TOO_MANY_REQUESTS"), operation.name


def test_the_same_requests_pass_admission_with_a_token_that_is_strong_enough(
    both: Both, capfd: pytest.CaptureFixture[str]
) -> None:
    """Or the refusals above would prove nothing."""
    operator = both.make({"tenant": "*", "permissions": ["admin"]})
    put = bearer(both.node.token)
    with both.greeted(operator) as wire:
        for operation in OPERATIONS:
            for over_http in (True, False):
                code = both.over_http(operation, operator) if over_http else both.over_frames(operation, wire)
                assert code not in ADMISSION - {"NOT_FOUND"}, (operation.name, code)
                both.http.put("/v1/tenants/owned", headers=put)
                both.http.put("/v1/owned/in/streams/one", headers=put)
    rows = sum(weak.verdict(operation) is not None for weak in WEAK for operation in OPERATIONS)
    with capfd.disabled():
        sys.stderr.write(f"\nsecurity matrix: {len(OPERATIONS)} operations, {rows} refusals on each wire\n")
