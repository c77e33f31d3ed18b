"""The operations that change or describe the catalog and the node: one handler each, from admitted request to reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from flowmesh.access.permissions import EVERYTHING, Permission
from flowmesh.api import groups
from flowmesh.api.admission import Principal
from flowmesh.api.service import Change, Service
from flowmesh.base import times
from flowmesh.base.errors import BadRequest, ErrorCode, FlowMeshError, Forbidden, NotFound
from flowmesh.base.names import checked_name
from flowmesh.base.version import VERSION
from flowmesh.catalog.model import StreamSettings, Tenant, Token
from flowmesh.log.splits import split
from flowmesh.node.streams import OpenStream
from flowmesh.operations import messages
from flowmesh.operations.messages import Reply
from flowmesh.operations.table import Operation

EXPIRY_S_MAX = 10 * 365 * 24 * 3600
DESCRIPTION_CHARS_MAX = 200
_SETTINGS = tuple(field.name for field in msgspec.structs.fields(StreamSettings))

Handler = Callable[[Service, Principal, Any], Awaitable[Reply]]


async def execute(service: Service, principal: Principal, operation: Operation, request: messages.Request) -> Reply:
    """Runs one of the operations that carry no records. What an administrator changes is told to the audit log."""
    handler = HANDLERS[operation.name]
    if operation.method == "GET" or operation.permission is Permission.STREAM_READ:
        return await handler(service, principal, request)
    outcome, made = ErrorCode.INTERNAL.value, ""
    try:
        reply = await handler(service, principal, request)
        outcome, made = "OK", reply.id if isinstance(reply, messages.NewToken) else ""
        return reply
    except FlowMeshError as error:
        outcome = error.code.value
        raise
    finally:
        service.audit(Change(operation.name, principal.token_id, _target(request, made), outcome))


def _target(request: messages.Request, made: str) -> str:
    """What a change is about, as one would say it: a path, or the id of a token, and of the one it was made into."""
    names = ("tenant", "namespace", "name", "group")
    parts = [str(getattr(request, name))[:80] for name in names if hasattr(request, name)]
    if hasattr(request, "id"):
        parts.append(str(request.id).partition(".")[0][:80])  # a whole token, given by mistake, keeps its secret
    return "/".join(parts) + (f" -> {made}" if made else "")


# --- node and tenants ---------------------------------------------------------------------------------------------


async def describe_node(service: Service, principal: Principal, _request: messages.DescribeNode) -> Reply:
    node, state = service.node, service.node.catalog.machine.state
    return messages.NodeDescription(
        id=node.id,
        version=VERSION,
        started=times.to_text(service.started_ns),
        streams=sum(1 for tenant, namespace, _ in list(state.streams) if principal.grant.sees(tenant, namespace)),
        tenants=sum(1 for tenant in list(state.tenants) if principal.grant.sees(tenant)),
        disk_free_bytes=node.free_bytes(),
    )


async def create_tenant(service: Service, _principal: Principal, request: messages.CreateTenant) -> Reply:
    return _tenant(await service.change(partial(service.node.create_tenant, request.tenant)))


async def delete_tenant(service: Service, _principal: Principal, request: messages.DeleteTenant) -> Reply:
    await service.change(partial(service.node.delete_tenant, request.tenant))
    return messages.Empty()


async def list_tenants(service: Service, principal: Principal, _request: messages.ListTenants) -> Reply:
    tenants = list(service.node.catalog.machine.state.tenants.values())
    return messages.TenantList([_tenant(tenant) for tenant in tenants if principal.grant.sees(tenant.name)])


def _tenant(tenant: Tenant) -> messages.TenantDescription:
    return messages.TenantDescription(tenant.name, times.to_text(tenant.created_ns))


# --- tokens -------------------------------------------------------------------------------------------------------


async def create_token(service: Service, principal: Principal, request: messages.CreateToken) -> Reply:
    """A token can give away only what its maker has: the same tenant, and no permission beyond the maker's own."""
    if not principal.grant.sees(request.tenant):
        raise NotFound(f"there is no tenant {request.tenant!r}.", field="tenant")
    for namespace in request.namespaces:
        if namespace != EVERYTHING:
            checked_name(namespace, "namespaces")
        if not principal.grant.covers_namespace(namespace):
            raise Forbidden("this token cannot give away a namespace that it does not have.", hint=namespace[:80])
    for name in request.permissions:
        if name not in list(Permission):
            raise BadRequest(
                f"there is no permission {name[:80]!r}.", field="permissions", hint=f"Use {', '.join(Permission)}."
            )
        if not principal.grant.allows(Permission(name)):
            raise Forbidden(f"this token cannot give away '{name}', which it does not have itself.")
    if not request.permissions or not request.namespaces:
        raise BadRequest("a token needs at least one permission and one namespace.", field="permissions")
    if len(request.description) > DESCRIPTION_CHARS_MAX or not request.description.isprintable():
        raise BadRequest(
            f"a description has at most {DESCRIPTION_CHARS_MAX} printable characters.", field="description"
        )
    made = await service.change(
        partial(
            service.node.create_token,
            request.tenant,
            request.namespaces,
            request.permissions,
            _expiry(service, request.expires_in_s),
            request.description,
        )
    )
    return messages.NewToken(made.id, made.text)


def _expiry(service: Service, seconds: int | None) -> int | None:
    if seconds is None:
        return None
    if not 1 <= seconds <= EXPIRY_S_MAX:
        raise BadRequest(f"expires_in_s is {seconds}; it goes from 1 to {EXPIRY_S_MAX}.", field="expires_in_s")
    return service.clock.wall_ns() + seconds * times.NANOSECONDS


async def list_tokens(service: Service, principal: Principal, request: messages.ListTokens) -> Reply:
    known = list(service.node.catalog.machine.state.tokens.values())
    shown = [token for token in known if _may_manage(principal, token) and request.tenant in (None, token.tenant)]
    return messages.TokenList([_token(token) for token in shown])


async def revoke_token(service: Service, principal: Principal, request: messages.RevokeToken) -> Reply:
    _require_manageable(service, principal, request.id)
    await service.change(partial(service.node.revoke_token, request.id))
    return messages.Empty()


async def rotate_token(service: Service, principal: Principal, request: messages.RotateToken) -> Reply:
    if not 0 <= request.overlap_s <= EXPIRY_S_MAX:
        raise BadRequest(f"overlap_s is {request.overlap_s}; it goes from 0 to {EXPIRY_S_MAX}.", field="overlap_s")
    _require_manageable(service, principal, request.id)
    overlap_ns = request.overlap_s * times.NANOSECONDS
    made = await service.change(partial(service.node.rotate_token, request.id, overlap_ns))
    return messages.NewToken(made.id, made.text)


def _may_manage(principal: Principal, token: Token) -> bool:
    """Whether all that the token can do lies within the principal's own rights."""
    grant = principal.grant
    return (
        grant.sees(token.tenant)
        and all(map(grant.covers_namespace, token.namespaces))
        and all(grant.allows(Permission(name)) for name in token.permissions)
    )


def _require_manageable(service: Service, principal: Principal, token_id: str) -> None:
    token = service.node.catalog.machine.state.tokens.get(token_id)
    if token is None or not _may_manage(principal, token):
        raise NotFound(f"there is no token {token_id[:80]!r}.", field="id")


def _token(token: Token) -> messages.TokenDescription:
    return messages.TokenDescription(
        id=token.id,
        tenant=token.tenant,
        namespaces=list(token.namespaces),
        permissions=list(token.permissions),
        created=times.to_text(token.created_ns),
        expires=None if token.expires_ns is None else times.to_text(token.expires_ns),
        description=token.description,
        replaced_by=token.replaced_by,
    )


# --- streams ------------------------------------------------------------------------------------------------------


async def create_stream(service: Service, _principal: Principal, request: messages.CreateStream) -> Reply:
    settings = StreamSettings(**{name: getattr(request, name) for name in _SETTINGS})
    key = (request.tenant, request.namespace, request.name)
    await service.change(partial(service.node.create_stream, key, settings))
    return _stream(service.node.stream(key))


async def alter_stream(service: Service, _principal: Principal, request: messages.AlterStream) -> Reply:
    key = (request.tenant, request.namespace, request.name)
    given = {name: value for name in _SETTINGS if (value := getattr(request, name, msgspec.UNSET)) is not msgspec.UNSET}

    def alter() -> None:
        settings = msgspec.structs.replace(service.node.stream(key).stream.settings, **given)
        service.node.alter_stream(key, settings)

    await service.change(alter)
    return _stream(service.node.stream(key))


async def delete_stream(service: Service, _principal: Principal, request: messages.DeleteStream) -> Reply:
    key = (request.tenant, request.namespace, request.name)
    opened = service.node.streams.get(key)
    await service.change(partial(service.node.delete_stream, key))
    for partition in opened.partitions if opened else ():
        partition.published()
    return messages.Empty()


async def describe_stream(service: Service, _principal: Principal, request: messages.DescribeStream) -> Reply:
    return _stream(service.node.stream((request.tenant, request.namespace, request.name)))


async def list_streams(service: Service, _principal: Principal, request: messages.ListStreams) -> Reply:
    wanted = (request.tenant, request.namespace)
    known = list(service.node.catalog.machine.state.streams)
    return messages.StreamList(sorted(name for tenant, namespace, name in known if (tenant, namespace) == wanted))


async def find_offset(service: Service, _principal: Principal, request: messages.FindOffset) -> Reply:
    opened = service.node.stream((request.tenant, request.namespace, request.name))
    partition = opened.partition(request.partition)
    time_ns = None if request.time is None else times.from_text(request.time)
    offset = await service.find_offset(partition, None, time_ns, request.at, "earliest")
    view = partition.view
    return messages.FoundOffset(offset, view.start_offset, view.end_offset)


async def split_stream(service: Service, _principal: Principal, request: messages.SplitStream) -> Reply:
    opened = service.node.stream((request.tenant, request.namespace, request.name))
    view = opened.partition(request.partition).view
    found = await service.compute(split, view, request.offset, request.end_offset, request.split_bytes)
    return messages.StreamSplits(
        partition=request.partition,
        start_offset=view.start_offset,
        end_offset=view.end_offset,
        splits=[messages.SplitDescription(*piece) for piece in found],
    )


def _stream(opened: OpenStream) -> messages.StreamDescription:
    stream, settings = opened.stream, opened.stream.settings
    partitions = []
    for number, partition in enumerate(opened.partitions):
        view, failure = partition.view, partition.failure
        partitions.append(
            messages.PartitionDescription(
                partition=number,
                start_offset=view.start_offset,
                end_offset=view.end_offset,
                size_bytes=view.size_bytes,
                segments=len(view.closed) + 1,
                damaged=[damage.describe() for damage in view.damage],
                failure=None if failure is None else failure.code.value,
            )
        )
    return messages.StreamDescription(
        tenant=stream.tenant,
        namespace=stream.namespace,
        name=stream.name,
        id=stream.id,
        created=times.to_text(stream.created_ns),
        partitions=partitions,
        **{name: getattr(settings, name) for name in _SETTINGS if name != "partitions"},
    )


HANDLERS: dict[str, Handler] = {
    "node.describe": describe_node,
    "tenant.create": create_tenant,
    "tenant.list": list_tenants,
    "tenant.delete": delete_tenant,
    "token.create": create_token,
    "token.list": list_tokens,
    "token.revoke": revoke_token,
    "token.rotate": rotate_token,
    "stream.create": create_stream,
    "stream.describe": describe_stream,
    "stream.alter": alter_stream,
    "stream.delete": delete_stream,
    "stream.list": list_streams,
    "stream.find": find_offset,
    "stream.split": split_stream,
    "group.commit": groups.commit_group,
    "group.describe": groups.describe_group,
    "group.list": groups.list_groups,
    "group.delete": groups.delete_group,
}
