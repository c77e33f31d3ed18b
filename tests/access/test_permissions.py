"""What a grant sees and allows, as a table."""

import pytest

from flowmesh.access.permissions import EVERYTHING, Grant, Permission

OPERATOR = Grant(EVERYTHING, [EVERYTHING], [Permission.ADMIN])
ACME = Grant("acme", [EVERYTHING], [Permission.ADMIN])
ORDERS_READER = Grant("acme", ["orders"], [Permission.STREAM_READ])
NOBODY = Grant("acme", [], [])


@pytest.mark.parametrize(
    "grant, tenant, namespace, seen",
    [
        (OPERATOR, "acme", "orders", True),
        (OPERATOR, "other", None, True),
        (ACME, "acme", "orders", True),
        (ACME, "acme", None, True),
        (ACME, "other", "orders", False),
        (ACME, "other", None, False),
        (ORDERS_READER, "acme", "orders", True),
        (ORDERS_READER, "acme", "bills", False),
        (ORDERS_READER, "other", "orders", False),
        (ORDERS_READER, EVERYTHING, None, False),
        (NOBODY, "acme", "orders", False),
    ],
)
def test_what_is_seen(grant: Grant, tenant: str, namespace: str | None, seen: bool) -> None:
    assert grant.sees(tenant, namespace) is seen


@pytest.mark.parametrize("permission", Permission)
def test_admin_allows_everything_and_others_only_themselves(permission: Permission) -> None:
    assert ACME.allows(permission)
    assert ORDERS_READER.allows(permission) is (permission is Permission.STREAM_READ)
    assert not NOBODY.allows(permission)


@pytest.mark.parametrize(
    "grant, namespace, covered",
    [
        (ACME, "orders", True),
        (ACME, EVERYTHING, True),
        (ORDERS_READER, "orders", True),
        (ORDERS_READER, EVERYTHING, False),
        (ORDERS_READER, "bills", False),
    ],
)
def test_what_may_be_given_away(grant: Grant, namespace: str, covered: bool) -> None:
    assert grant.covers_namespace(namespace) is covered


def test_only_the_grant_of_all_tenants_is_the_operators() -> None:
    assert OPERATOR.is_operator
    assert not ACME.is_operator
