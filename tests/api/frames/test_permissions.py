"""Who may do what over frames: every operation with every permission, and other tenants' streams that are not there."""

import random
from typing import Any

import pytest

from flowmesh.access.permissions import Permission
from flowmesh.base.errors import ErrorCode
from flowmesh.operations.table import OPERATIONS, Operation, Scope
from tests.api.frames.node_thread import NodeThread
from tests.api.frames.wire import Wire

STREAM_OPERATIONS = [operation for operation in OPERATIONS if operation.scope is Scope.STREAM]
PROBES = 2000


def fields_of(operation: Operation, **place: object) -> dict[str, Any]:
    """The least that the operation has to be told."""
    known = {
        "tenant": "default",
        "namespace": "default",
        "name": "matrix",
        "group": "nobody",
        "id": "nobody",
        "permissions": ["stream.read"],
    }
    names = set(operation.request.__struct_fields__) & set(known)
    return {name: place.get(name, known[name]) for name in names}


def test_every_operation_needs_its_permission(node: NodeThread, wire: Wire) -> None:
    wire.create("matrix")
    for permission in Permission:
        made = wire.call("token.create", tenant="default", permissions=[permission.value])
        with Wire(node.port, made["token"]) as other:
            for operation in OPERATIONS:
                code = other.call(operation.name, **fields_of(operation, permissions=[permission.value])).get("code")
                allowed = permission in (operation.permission, Permission.ADMIN)
                if not allowed or (operation.scope is Scope.NODE and operation.method != "GET"):
                    assert code == ErrorCode.FORBIDDEN, (permission, operation.name)
                else:
                    assert code != ErrorCode.FORBIDDEN, (permission, operation.name)
                if operation.name == "stream.delete" and allowed:
                    wire.create("matrix")


@pytest.fixture
def stranger(node: NodeThread, wire: Wire) -> Any:
    """The administrator of one tenant, beside another tenant that has streams."""
    if "code" not in wire.call("tenant.create", tenant="theirs"):
        wire.call("tenant.create", tenant="ours")
        wire.call("stream.create", tenant="theirs", namespace="default", name="secret")
    made = wire.call("token.create", tenant="ours", permissions=["admin"])
    with Wire(node.port, made["token"]) as opened:
        yield opened


@pytest.mark.parametrize("operation", STREAM_OPERATIONS, ids=lambda operation: operation.name)
def test_what_is_there_and_what_is_not_look_alike_from_outside(stranger: Wire, operation: Operation) -> None:
    there = stranger.call(operation.name, **fields_of(operation, tenant="theirs", name="secret"))
    absent = stranger.call(operation.name, **fields_of(operation, tenant="theirs", name="absent"))
    nowhere = stranger.call(operation.name, **fields_of(operation, tenant="nobody", name="secret"))
    assert there["code"] == absent["code"] == nowhere["code"] == ErrorCode.NOT_FOUND
    assert there["message"].replace("secret", "absent") == absent["message"]
    assert there["message"].replace("theirs", "nobody") == nowhere["message"]
    assert set(there) == set(absent) == set(nowhere)


def test_listings_and_tokens_of_others_are_not_seen(stranger: Wire, wire: Wire) -> None:
    theirs = wire.call("token.create", tenant="theirs", permissions=["stream.read"])
    assert stranger.call("stream.list", tenant="theirs", namespace="default")["code"] == ErrorCode.NOT_FOUND
    assert {token["tenant"] for token in stranger.call("token.list")["tokens"]} == {"ours"}
    assert [tenant["tenant"] for tenant in stranger.call("tenant.list")["tenants"]] == ["ours"]
    for token_id in (theirs["id"], "nobody"):
        for name in ("token.revoke", "token.rotate"):
            assert stranger.call(name, id=token_id)["code"] == ErrorCode.NOT_FOUND
    for tenant in ("theirs", "nobody", "*"):
        refused = stranger.call("token.create", tenant=tenant, permissions=["stream.read"])
        assert refused["code"] == ErrorCode.NOT_FOUND


def probes(stranger: Wire, count: int, seed: int) -> None:
    choose = random.Random(seed)
    tricks = [
        "theirs",
        "nobody",
        "..",
        "theirs/default",
        "theirs%2f",
        "%252e",
        "Theirs",
        "th\u0435irs",
        "theirs\0",
        "*",
    ]
    for number in range(count):
        operation = choose.choice([found for found in STREAM_OPERATIONS if found.name != "stream.create"])
        place = {"tenant": choose.choice(tricks), "namespace": choose.choice(["default", "../default", "."])}
        place["name"] = choose.choice(["secret", "absent", "../secret", "secret.", f"s{number}"])
        answer = stranger.call(operation.name, **fields_of(operation, **place))
        assert answer["code"] in (ErrorCode.NOT_FOUND, ErrorCode.BAD_REQUEST), (operation.name, place)
        assert ("offset" in answer or "appends" in answer) is False


def test_probes_for_others_streams_are_all_refused(stranger: Wire) -> None:
    probes(stranger, PROBES, 7)


@pytest.mark.soak
def test_ten_thousand_probes_are_all_refused(stranger: Wire) -> None:
    probes(stranger, 10_000, random.randrange(2**32))
