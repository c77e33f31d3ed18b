"""The asynchronous client: one connection to a node, the administration of it, and handles on its streams."""

from __future__ import annotations

import ssl
from collections.abc import Generator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from flowmesh.base.errors import BadRequest
from flowmesh.client.address import parse_address
from flowmesh.client.session import TIMEOUT_S, Session
from flowmesh.client.stream_handle import StreamHandle
from flowmesh.operations import messages
from flowmesh.operations.messages import (
    Empty,
    NewToken,
    NodeDescription,
    StreamDescription,
    TenantDescription,
    TenantList,
    TokenDescription,
    TokenList,
)

DEFAULT = "default"
"""The tenant and the namespace that are there from the start."""


class Client:
    """Made by `connect`. Its connection comes back by itself; `close` ends it for good."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    # --- streams ------------------------------------------------------------------------------------------------

    def stream(self, name: str, *, namespace: str = DEFAULT, tenant: str = DEFAULT) -> StreamHandle:
        """A handle on a stream, which need not exist yet. `name` may be a whole path: `tenant/namespace/name`."""
        return StreamHandle(self._session, *_place(name, namespace, tenant))

    async def create_stream(
        self,
        name: str,
        *,
        namespace: str = DEFAULT,
        tenant: str = DEFAULT,
        partitions: int = 1,
        retention_age_ms: int | None = None,
        retention_bytes: int | None = None,
        segment_bytes: int | None = None,
        segment_age_ms: int | None = None,
        durability: str = "batch",
    ) -> StreamHandle:
        place = _place(name, namespace, tenant)
        request = messages.CreateStream(
            *place,
            partitions=partitions,
            retention_age_ms=retention_age_ms,
            retention_bytes=retention_bytes,
            segment_bytes=segment_bytes,
            segment_age_ms=segment_age_ms,
            durability=durability,
        )
        await self._session.request("stream.create", request, StreamDescription)
        return StreamHandle(self._session, *place)

    async def list_streams(self, *, namespace: str = DEFAULT, tenant: str = DEFAULT) -> list[str]:
        request = messages.ListStreams(tenant, namespace)
        found = await self._session.request("stream.list", request, messages.StreamList, repeatable=True)
        return found.streams

    # --- tenants and tokens -------------------------------------------------------------------------------------

    async def create_tenant(self, tenant: str) -> TenantDescription:
        return await self._session.request("tenant.create", messages.CreateTenant(tenant), TenantDescription)

    async def list_tenants(self) -> list[TenantDescription]:
        found = await self._session.request("tenant.list", messages.ListTenants(), TenantList, repeatable=True)
        return found.tenants

    async def delete_tenant(self, tenant: str) -> None:
        await self._session.request("tenant.delete", messages.DeleteTenant(tenant), Empty)

    async def create_token(
        self,
        *,
        tenant: str = DEFAULT,
        namespaces: Sequence[str] = ("*",),
        permissions: Sequence[str],
        expires_in_s: int | None = None,
        description: str = "",
    ) -> NewToken:
        """A new token. Its text is in the answer, and nowhere else."""
        request = messages.CreateToken(tenant, tuple(namespaces), tuple(permissions), expires_in_s, description)
        return await self._session.request("token.create", request, NewToken)

    async def list_tokens(self, tenant: str | None = None) -> list[TokenDescription]:
        found = await self._session.request("token.list", messages.ListTokens(tenant), TokenList, repeatable=True)
        return found.tokens

    async def revoke_token(self, token_id: str) -> None:
        await self._session.request("token.revoke", messages.RevokeToken(token_id), Empty)

    async def rotate_token(self, token_id: str, *, overlap_s: int = 3600) -> NewToken:
        return await self._session.request("token.rotate", messages.RotateToken(token_id, overlap_s), NewToken)

    # --- the node -----------------------------------------------------------------------------------------------

    async def describe_node(self) -> NodeDescription:
        return await self._session.request("node.describe", messages.DescribeNode(), NodeDescription, repeatable=True)


class Connecting:
    """What `connect` returns: await it for a client, or use it as a context manager that closes the client."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._client = Client(session)

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open().__await__()

    async def __aenter__(self) -> Client:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def _open(self) -> Client:
        await self._session.open()
        return self._client


def connect(
    url: str,
    *,
    token: str,
    ca_file: str | Path | None = None,
    tls: ssl.SSLContext | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Connecting:
    """A client of the node at `flowmesh://host:port`, or `flowmeshs://host:port` for TLS.

    A node that cannot be reached within `timeout_s`, which also bounds every later request, is an error.
    """
    if timeout_s <= 0:
        raise BadRequest("timeout_s has to be positive.", field="timeout_s")
    # A token that was read from a file brings the end of its line along, which is no part of any token.
    return Connecting(Session(parse_address(url, ca_file, tls), token.strip(), timeout_s))


def _place(name: str, namespace: str, tenant: str) -> tuple[str, str, str]:
    parts = name.split("/")
    if len(parts) == 3:
        return parts[0], parts[1], parts[2]
    if len(parts) != 1:
        raise BadRequest(f"{name[:80]!r} is no stream.", field="name", hint="Write 'name' or 'tenant/namespace/name'.")
    return tenant, namespace, name
