"""The catalog as a machine: rules in `decide`, the only changes in `apply`."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from flowmesh.base.errors import AlreadyExists, BadRequest, LimitExceeded, NotFound
from flowmesh.base.limits import STREAMS_PER_TENANT_MAX, TENANTS_MAX, TOKENS_PER_TENANT_MAX
from flowmesh.catalog import commands, events
from flowmesh.catalog.commands import Command
from flowmesh.catalog.events import Event
from flowmesh.catalog.model import Stream, StreamKey, Tenant, Token, no_stream

STATE_VERSION = 1


class CatalogDecision(NamedTuple):
    events: list[Event]
    reply: Any


class State(msgspec.Struct):
    tenants: dict[str, Tenant] = msgspec.field(default_factory=dict)
    streams: dict[StreamKey, Stream] = msgspec.field(default_factory=dict)
    deleted: dict[int, Stream] = msgspec.field(default_factory=dict)
    """Streams that are no more, but whose directories may still be there."""
    tokens: dict[str, Token] = msgspec.field(default_factory=dict)


class CatalogMachine:
    state_version = STATE_VERSION

    def __init__(self) -> None:
        self.state = State()
        self.version = 0
        """Grows with every change: whoever keeps something derived from the catalog compares it."""

    # --- decide -------------------------------------------------------------------------------------------------

    def decide(self, command: Command, next_offset: int, now_ns: int) -> CatalogDecision:
        match command:
            case commands.AddTenant(name=name):
                return self._create_tenant(name, now_ns)
            case commands.DropTenant(name=name):
                return self._delete_tenant(name)
            case commands.AddStream():
                return self._create_stream(command, next_offset, now_ns)
            case commands.ChangeStream():
                return self._alter_stream(command)
            case commands.DropStream(tenant=tenant, namespace=namespace, name=name):
                stream = self._stream((tenant, namespace, name))
                return CatalogDecision([events.StreamDeleted(tenant, namespace, name)], stream)
            case commands.ForgetStream(id=stream_id):
                known = [events.StreamRemoved(stream_id)] if stream_id in self.state.deleted else []
                return CatalogDecision([*known], None)
            case commands.AddToken(token=token):
                return self._add_token(token)
            case commands.SwapToken():
                return self._rotate_token(command)
            case commands.DropToken(id=token_id):
                token = self._token(token_id)
                return CatalogDecision([events.TokenRevoked(token_id)], token)

    def _create_tenant(self, name: str, now_ns: int) -> CatalogDecision:
        if name in self.state.tenants:
            raise AlreadyExists(
                f"there is a tenant {name!r} already.", field="tenant", hint="Use it, or choose another name."
            )
        if len(self.state.tenants) >= TENANTS_MAX:
            raise LimitExceeded(
                f"a node holds at most {TENANTS_MAX} tenants.", field="tenant", hint="Delete one that is not used."
            )
        tenant = Tenant(name, now_ns)
        return CatalogDecision([events.TenantCreated(tenant)], tenant)

    def _delete_tenant(self, name: str) -> CatalogDecision:
        if name not in self.state.tenants:
            raise NotFound(f"there is no tenant {name!r}.", field="tenant")
        held = [stream.path for stream in self.state.streams.values() if stream.tenant == name]
        if held:
            raise BadRequest(
                f"tenant {name!r} still has {len(held)} streams, {held[0]!r} among them.",
                field="tenant",
                hint="Delete them first.",
            )
        ended: list[Event] = [
            events.TokenRevoked(token.id) for token in self.state.tokens.values() if token.tenant == name
        ]
        return CatalogDecision([*ended, events.TenantDeleted(name)], None)

    def _create_stream(self, command: commands.AddStream, next_offset: int, now_ns: int) -> CatalogDecision:
        key = (command.tenant, command.namespace, command.name)
        if command.tenant not in self.state.tenants:
            raise NotFound(f"there is no tenant {command.tenant!r}.", field="tenant")
        if key in self.state.streams:
            raise AlreadyExists(
                f"there is a stream {'/'.join(key)!r} already.",
                field="name",
                hint="Use it, alter it, or choose another name.",
            )
        held = sum(1 for tenant, _, _ in self.state.streams if tenant == command.tenant)
        if held >= STREAMS_PER_TENANT_MAX:
            raise LimitExceeded(
                f"a tenant holds at most {STREAMS_PER_TENANT_MAX} streams.",
                field="name",
                hint="Delete one that is not used.",
            )
        stream = Stream(*key, next_offset, now_ns, command.settings)
        return CatalogDecision([events.StreamCreated(stream)], stream)

    def _alter_stream(self, command: commands.ChangeStream) -> CatalogDecision:
        key = (command.tenant, command.namespace, command.name)
        stream = self._stream(key)
        if command.settings.partitions != stream.settings.partitions:
            raise BadRequest(
                f"stream {stream.path!r} has {stream.settings.partitions} partitions, and that cannot be altered.",
                field="partitions",
                hint="Create a stream with the partitions you want and replay this one into it.",
            )
        altered = msgspec.structs.replace(stream, settings=command.settings)
        return CatalogDecision([events.StreamAltered(*key, command.settings)], altered)

    def _add_token(self, token: Token) -> CatalogDecision:
        if token.tenant != "*" and token.tenant not in self.state.tenants:
            raise NotFound(f"there is no tenant {token.tenant!r}.", field="tenant")
        held = sum(1 for other in self.state.tokens.values() if other.tenant == token.tenant)
        if held >= TOKENS_PER_TENANT_MAX:
            raise LimitExceeded(
                f"a tenant holds at most {TOKENS_PER_TENANT_MAX} tokens.",
                field="tenant",
                hint="Revoke one that is not used.",
            )
        return CatalogDecision([events.TokenCreated(token)], token)

    def _rotate_token(self, command: commands.SwapToken) -> CatalogDecision:
        old = self._token(command.id)
        expires_ns = command.expires_ns if old.expires_ns is None else min(command.expires_ns, old.expires_ns)
        ending = msgspec.structs.replace(old, expires_ns=expires_ns, replaced_by=command.successor.id)
        return CatalogDecision([events.TokenCreated(command.successor), events.TokenChanged(ending)], command.successor)

    def _stream(self, key: StreamKey) -> Stream:
        stream = self.state.streams.get(key)
        if stream is None:
            raise no_stream("/".join(key))
        return stream

    def _token(self, token_id: str) -> Token:
        token = self.state.tokens.get(token_id)
        if token is None:
            raise NotFound(f"there is no token {token_id!r}.", field="id")
        return token

    # --- apply --------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        state = self.state
        match event:
            case events.TenantCreated(tenant=tenant):
                state.tenants[tenant.name] = tenant
            case events.TenantDeleted(name=name):
                state.tenants.pop(name, None)
            case events.StreamCreated(stream=stream):
                state.streams[stream.tenant, stream.namespace, stream.name] = stream
            case events.StreamAltered(tenant=tenant_name, namespace=namespace, name=name, settings=settings):
                key = (tenant_name, namespace, name)
                state.streams[key] = msgspec.structs.replace(state.streams[key], settings=settings)
            case events.StreamDeleted(tenant=tenant_name, namespace=namespace, name=name):
                gone = state.streams.pop((tenant_name, namespace, name))
                state.deleted[gone.id] = gone
            case events.StreamRemoved(id=stream_id):
                state.deleted.pop(stream_id, None)
            case events.TokenCreated(token=token) | events.TokenChanged(token=token):
                state.tokens[token.id] = token
            case events.TokenRevoked(id=token_id):
                state.tokens.pop(token_id, None)
        # Last: whoever reads this version on another thread must find the change there.
        self.version += 1

    def snapshot(self) -> bytes:
        state = self.state
        return msgspec.msgpack.encode(
            [list(values.values()) for values in (state.tenants, state.streams, state.deleted, state.tokens)]
        )

    def restore(self, data: bytes | memoryview) -> None:
        tenants, streams, deleted, tokens = msgspec.msgpack.decode(
            data, type=tuple[list[Tenant], list[Stream], list[Stream], list[Token]]
        )
        self.state = State(
            {tenant.name: tenant for tenant in tenants},
            {(stream.tenant, stream.namespace, stream.name): stream for stream in streams},
            {stream.id: stream for stream in deleted},
            {token.id: token for token in tokens},
        )
