"""`flowmesh token …` and `flowmesh tenant …` against a real node."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.running import call

pytestmark = pytest.mark.usefixtures("node")


def told(*arguments: object) -> Any:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def listed(token_id: str) -> dict[str, Any] | None:
    tokens = told("token", "list")["tokens"]
    return next((token for token in tokens if token["id"] == token_id), None)


def test_a_token_is_shown_once_and_allows_what_it_says() -> None:
    assert call("stream", "create", "guarded").exit_code == 0
    made = told("token", "create", "--permission", "stream.read", "--expires", "90d", "--description", "for a test")
    reads = call("stream", "describe", "guarded", "--token", made["token"])
    assert reads.exit_code == 0, reads.output
    refused = call("stream", "delete", "guarded", "--yes", "--token", made["token"])
    assert (refused.exit_code, "stream.admin" in refused.stderr) == (1, True)
    found = listed(made["id"])
    assert found is not None
    assert (found["permissions"], found["description"]) == (["stream.read"], "for a test")
    assert made["token"] not in call("token", "list").output


def test_for_people_the_token_alone_is_on_standard_output() -> None:
    result = call("token", "create", "--permission", "stream.read")
    identity, _, secret = result.stdout.strip().partition(".")
    assert len(secret) > 40
    assert f"This is token {identity}." in result.stderr
    assert secret not in result.stderr


def test_a_rotated_token_overlaps_and_a_revoked_one_ends() -> None:
    made = told("token", "create", "--permission", "stream.read", "--permission", "node.read")
    after = told("token", "rotate", made["id"], "--overlap", "1h")
    for text in (made["token"], after["token"]):
        assert call("node", "describe", "--token", text).exit_code == 0
    old = listed(made["id"])
    assert old is not None
    assert old["replaced_by"] == after["id"]
    result = call("token", "revoke", after["token"])
    assert result.exit_code == 0, "a whole token is taken for its id"
    assert after["token"] not in result.output
    assert call("node", "describe", "--token", after["token"]).exit_code == 1
    assert listed(after["id"]) is None


def test_an_unknown_permission_is_wrong_usage() -> None:
    result = call("token", "create", "--permission", "everything")
    assert result.exit_code == 2
    assert "stream.read" in result.stderr


def test_a_tenant_lives_from_create_to_delete() -> None:
    assert told("tenant", "create", "acme")["tenant"] == "acme"
    assert "acme" in {each["tenant"] for each in told("tenant", "list")["tenants"]}
    assert "acme" in call("tenant", "list").stdout
    inside = told("token", "create", "--tenant", "acme", "--permission", "admin")
    options = ("--token", inside["token"])
    made = call("stream", "create", "acme/shop/orders", *options)
    assert made.exit_code == 0, made.output
    assert "still has 1 streams" in call("tenant", "delete", "acme").stderr
    hidden = call("stream", "describe", "default/default/guarded", *options)
    assert (hidden.exit_code, "there is no stream" in hidden.stderr) == (1, True)
    assert call("stream", "delete", "acme/shop/orders", "--yes").exit_code == 0
    assert call("tenant", "delete", "acme").exit_code == 0
    assert "acme" not in {each["tenant"] for each in told("tenant", "list")["tenants"]}
