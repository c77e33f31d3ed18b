"""What the catalog knows: tenants, streams and tokens as plain values."""

from __future__ import annotations

import msgspec

from flowmesh.base.errors import NotFound

DEFAULT_TENANT = "default"
DEFAULT_NAMESPACE = "default"


class Tenant(msgspec.Struct, frozen=True):
    name: str
    created_ns: int


class StreamSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user chooses for a stream. None means: the node's default, or without limit."""

    partitions: int = 1
    retention_age_ms: int | None = None
    retention_bytes: int | None = None
    segment_bytes: int | None = None
    segment_age_ms: int | None = None
    durability: str = "batch"


class Stream(msgspec.Struct, frozen=True):
    tenant: str
    namespace: str
    name: str
    id: int
    """The catalog offset that made it: a stream of the same name, made later, is another one."""
    created_ns: int
    settings: StreamSettings

    @property
    def path(self) -> str:
        return f"{self.tenant}/{self.namespace}/{self.name}"


class Token(msgspec.Struct, frozen=True):
    id: str
    tenant: str
    namespaces: tuple[str, ...]
    permissions: tuple[str, ...]
    secret_hash: bytes
    created_ns: int
    expires_ns: int | None = None
    description: str = ""
    replaced_by: str | None = None
    """The id of the token that this one was rotated to; both are good until this one expires."""


StreamKey = tuple[str, str, str]


def no_stream(path: str) -> NotFound:
    """The one answer, in the same words wherever it is given: nobody learns from it whose streams there are."""
    return NotFound(
        f"there is no stream {path!r}.",
        field="name",
        hint="Look at tenant, namespace and name; a stream is created before it is used.",
    )
