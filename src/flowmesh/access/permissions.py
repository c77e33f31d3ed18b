"""The permissions there are, what a grant covers, and the question every operation asks."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

EVERYTHING = "*"
"""As a tenant: all tenants (the operator). As a namespace: all namespaces of the tenant."""


class Permission(StrEnum):
    STREAM_READ = "stream.read"
    STREAM_WRITE = "stream.write"
    STREAM_ADMIN = "stream.admin"
    TOKEN_ADMIN = "token.admin"
    TENANT_ADMIN = "tenant.admin"
    NODE_READ = "node.read"
    ADMIN = "admin"
    """All of the above, inside the grant's tenant."""


class Grant:
    """What one token allows. Immutable; made once for each token and asked on every request."""

    __slots__ = ("_namespaces", "_permissions", "tenant")

    def __init__(self, tenant: str, namespaces: Collection[str], permissions: Collection[str]) -> None:
        self.tenant = tenant
        self._namespaces = frozenset(namespaces)
        self._permissions = frozenset(permissions)

    def sees(self, tenant: str, namespace: str | None = None) -> bool:
        """Whether this place exists at all for the holder. What is not seen is answered like what is not there."""
        if self.tenant not in (EVERYTHING, tenant):
            return False
        return namespace is None or EVERYTHING in self._namespaces or namespace in self._namespaces

    def covers_namespace(self, namespace: str) -> bool:
        """Whether the holder's own namespaces include this one, or, asked for `*`, all of them."""
        return EVERYTHING in self._namespaces or namespace in self._namespaces

    def allows(self, permission: Permission) -> bool:
        return permission in self._permissions or Permission.ADMIN in self._permissions

    @property
    def is_operator(self) -> bool:
        """Whether the holder may act on all tenants."""
        return self.tenant == EVERYTHING
