"""The one table of operations. Routes, op-codes, permissions, the OpenAPI page and their tests all derive from it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from flowmesh.access.permissions import Permission
from flowmesh.operations import messages


class Scope(StrEnum):
    """What an operation acts on, and so what a grant has to see for it."""

    NODE = "node"
    TENANT = "tenant"
    TOKENS = "tokens"
    NAMESPACE = "namespace"
    STREAM = "stream"


class Operation(NamedTuple):
    name: str
    """`noun.verb`; its trace span is `flowmesh.<name>`."""
    code: int
    """On the frames wire. Never reused."""
    request: type[messages.Request]
    reply: type[messages.Reply]
    permission: Permission
    scope: Scope
    method: str
    route: str
    summary: str

    @property
    def span(self) -> str:
        return f"flowmesh.{self.name}"


_STREAMS = "/v1/{tenant}/{namespace}/streams"
_STREAM = _STREAMS + "/{name}"
_GROUPS = _STREAM + "/groups"
_GROUP = _GROUPS + "/{group}"
_M = messages
_P = Permission

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "node.describe", 1, _M.DescribeNode, _M.NodeDescription, _P.NODE_READ, Scope.NODE,
        "GET", "/v1/node", "Say which node this is and how it is doing.",
    ),
    Operation(
        "tenant.create", 2, _M.CreateTenant, _M.TenantDescription, _P.TENANT_ADMIN, Scope.NODE,
        "PUT", "/v1/tenants/{tenant}", "Create a tenant.",
    ),
    Operation(
        "tenant.list", 3, _M.ListTenants, _M.TenantList, _P.TENANT_ADMIN, Scope.NODE,
        "GET", "/v1/tenants", "List the tenants.",
    ),
    Operation(
        "tenant.delete", 4, _M.DeleteTenant, _M.Empty, _P.TENANT_ADMIN, Scope.NODE,
        "DELETE", "/v1/tenants/{tenant}", "Delete a tenant that has no streams left, and its tokens.",
    ),
    Operation(
        "token.create", 5, _M.CreateToken, _M.NewToken, _P.TOKEN_ADMIN, Scope.TOKENS,
        "POST", "/v1/tokens", "Create a token. Its secret is shown once.",
    ),
    Operation(
        "token.list", 6, _M.ListTokens, _M.TokenList, _P.TOKEN_ADMIN, Scope.TOKENS,
        "GET", "/v1/tokens", "List tokens, without their secrets.",
    ),
    Operation(
        "token.revoke", 7, _M.RevokeToken, _M.Empty, _P.TOKEN_ADMIN, Scope.TOKENS,
        "DELETE", "/v1/tokens/{id}", "End a token at once.",
    ),
    Operation(
        "token.rotate", 8, _M.RotateToken, _M.NewToken, _P.TOKEN_ADMIN, Scope.TOKENS,
        "POST", "/v1/tokens/{id}/rotate", "Replace a token; the old one stays good for a while.",
    ),
    Operation(
        "stream.create", 16, _M.CreateStream, _M.StreamDescription, _P.STREAM_ADMIN, Scope.STREAM,
        "PUT", _STREAM, "Create a stream.",
    ),
    Operation(
        "stream.describe", 17, _M.DescribeStream, _M.StreamDescription, _P.STREAM_READ, Scope.STREAM,
        "GET", _STREAM, "Describe a stream and its partitions.",
    ),
    Operation(
        "stream.alter", 18, _M.AlterStream, _M.StreamDescription, _P.STREAM_ADMIN, Scope.STREAM,
        "PATCH", _STREAM, "Alter what can be altered: retention, segment limits, durability.",
    ),
    Operation(
        "stream.delete", 19, _M.DeleteStream, _M.Empty, _P.STREAM_ADMIN, Scope.STREAM,
        "DELETE", _STREAM, "Delete a stream and free its space.",
    ),
    Operation(
        "stream.list", 20, _M.ListStreams, _M.StreamList, _P.STREAM_READ, Scope.NAMESPACE,
        "GET", _STREAMS, "List the streams of a namespace.",
    ),
    Operation(
        "stream.append", 21, _M.AppendRecords, _M.AppendReceipt, _P.STREAM_WRITE, Scope.STREAM,
        "POST", _STREAM + "/records", "Append records.",
    ),
    Operation(
        "stream.read", 22, _M.ReadRecords, _M.Reply, _P.STREAM_READ, Scope.STREAM,
        "GET", _STREAM + "/records", "Read records from an offset or a time; wait for new ones.",
    ),
    Operation(
        "stream.find", 23, _M.FindOffset, _M.FoundOffset, _P.STREAM_READ, Scope.STREAM,
        "GET", _STREAM + "/offset", "Find the offset of a time, of the beginning or of the end.",
    ),
    Operation(
        "stream.subscribe", 24, _M.Subscribe, _M.Empty, _P.STREAM_READ, Scope.STREAM,
        "GET", _STREAM + "/events", "Have records pushed as they come.",
    ),
    Operation(
        "stream.split", 25, _M.SplitStream, _M.StreamSplits, _P.STREAM_READ, Scope.STREAM,
        "GET", _STREAM + "/splits", "Cut a range of a partition into pieces that can be read side by side.",
    ),
    Operation(
        "group.commit", 32, _M.CommitGroup, _M.GroupDescription, _P.STREAM_READ, Scope.STREAM,
        "PUT", _GROUP, "Say how far a group has read, and what retention keeps for it.",
    ),
    Operation(
        "group.describe", 33, _M.DescribeGroup, _M.GroupDescription, _P.STREAM_READ, Scope.STREAM,
        "GET", _GROUP, "Describe a group: its positions, its lag and its hold.",
    ),
    Operation(
        "group.list", 34, _M.ListGroups, _M.GroupList, _P.STREAM_READ, Scope.STREAM,
        "GET", _GROUPS, "List the groups of a stream.",
    ),
    Operation(
        "group.delete", 35, _M.DeleteGroup, _M.Empty, _P.STREAM_ADMIN, Scope.STREAM,
        "DELETE", _GROUP, "Forget a group, and what it holds.",
    ),
)  # fmt: skip

BY_NAME = {operation.name: operation for operation in OPERATIONS}
BY_CODE = {operation.code: operation for operation in OPERATIONS}
