"""What can happen to the catalog. These are stored: a field may be added with a default, and none is ever renamed."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from flowmesh.catalog.model import Stream, StreamSettings, Tenant, Token


class TenantCreated(msgspec.Struct, frozen=True, tag="tenant-created"):
    tenant: Tenant


class TenantDeleted(msgspec.Struct, frozen=True, tag="tenant-deleted"):
    name: str


class StreamCreated(msgspec.Struct, frozen=True, tag="stream-created"):
    stream: Stream


class StreamAltered(msgspec.Struct, frozen=True, tag="stream-altered"):
    tenant: str
    namespace: str
    name: str
    settings: StreamSettings


class StreamDeleted(msgspec.Struct, frozen=True, tag="stream-deleted"):
    tenant: str
    namespace: str
    name: str


class StreamRemoved(msgspec.Struct, frozen=True, tag="stream-removed"):
    """Its directory is gone from the disk."""

    id: int


class TokenCreated(msgspec.Struct, frozen=True, tag="token-created"):
    token: Token


class TokenChanged(msgspec.Struct, frozen=True, tag="token-changed"):
    token: Token


class TokenRevoked(msgspec.Struct, frozen=True, tag="token-revoked"):
    id: str


Event: TypeAlias = (
    TenantCreated
    | TenantDeleted
    | StreamCreated
    | StreamAltered
    | StreamDeleted
    | StreamRemoved
    | TokenCreated
    | TokenChanged
    | TokenRevoked
)
_decoder = msgspec.msgpack.Decoder(Event)


def encode(event: Event) -> bytes:
    return msgspec.msgpack.encode(event)


def decode(data: bytes) -> Event:
    event: Event = _decoder.decode(data)
    return event
