"""Requests and replies of every operation, as plain structs. Their field names are the ones users see on all wires."""

from __future__ import annotations

import msgspec

from flowmesh.base.limits import SPLIT_BYTES_DEFAULT


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What all requests share: unknown fields are refused, so a misspelt option is never silently ignored."""


class Reply(msgspec.Struct, frozen=True):
    """What all replies share: clients ignore fields that they do not know."""


class Empty(Reply, frozen=True):
    pass


# --- node and tenants ---------------------------------------------------------------------------------------------


class DescribeNode(Request, frozen=True):
    pass


class NodeDescription(Reply, frozen=True):
    id: str
    version: str
    started: str
    streams: int
    tenants: int
    disk_free_bytes: int


class CreateTenant(Request, frozen=True):
    tenant: str


class DeleteTenant(Request, frozen=True):
    tenant: str


class ListTenants(Request, frozen=True):
    pass


class TenantDescription(Reply, frozen=True):
    tenant: str
    created: str


class TenantList(Reply, frozen=True):
    tenants: list[TenantDescription]


# --- tokens -------------------------------------------------------------------------------------------------------


class CreateToken(Request, frozen=True):
    tenant: str
    namespaces: tuple[str, ...] = ("*",)
    permissions: tuple[str, ...] = ()
    expires_in_s: int | None = None
    description: str = ""


class ListTokens(Request, frozen=True):
    tenant: str | None = None


class RevokeToken(Request, frozen=True):
    id: str


class RotateToken(Request, frozen=True):
    id: str
    overlap_s: int = 3600


class NewToken(Reply, frozen=True):
    id: str
    token: str
    """The only time that it is shown."""


class TokenDescription(Reply, frozen=True):
    id: str
    tenant: str
    namespaces: list[str]
    permissions: list[str]
    created: str
    expires: str | None
    description: str
    replaced_by: str | None


class TokenList(Reply, frozen=True):
    tokens: list[TokenDescription]


# --- streams ------------------------------------------------------------------------------------------------------


class StreamRequest(Request, frozen=True):
    """Addresses one stream."""

    tenant: str
    namespace: str
    name: str


class CreateStream(StreamRequest, frozen=True):
    partitions: int = 1
    retention_age_ms: int | None = None
    retention_bytes: int | None = None
    segment_bytes: int | None = None
    segment_age_ms: int | None = None
    durability: str = "batch"


class AlterStream(StreamRequest, frozen=True):
    """A field that is left out stays as it is; null takes a limit away."""

    retention_age_ms: int | msgspec.UnsetType | None = msgspec.UNSET
    retention_bytes: int | msgspec.UnsetType | None = msgspec.UNSET
    segment_bytes: int | msgspec.UnsetType | None = msgspec.UNSET
    segment_age_ms: int | msgspec.UnsetType | None = msgspec.UNSET
    durability: str | msgspec.UnsetType = msgspec.UNSET


class DescribeStream(StreamRequest, frozen=True):
    pass


class DeleteStream(StreamRequest, frozen=True):
    pass


class ListStreams(Request, frozen=True):
    tenant: str
    namespace: str


class PartitionDescription(Reply, frozen=True):
    partition: int
    start_offset: int
    end_offset: int
    size_bytes: int
    segments: int
    damaged: list[str]
    failure: str | None


class StreamDescription(Reply, frozen=True):
    tenant: str
    namespace: str
    name: str
    id: int
    created: str
    partitions: list[PartitionDescription]
    retention_age_ms: int | None
    retention_bytes: int | None
    segment_bytes: int | None
    segment_age_ms: int | None
    durability: str


class StreamList(Reply, frozen=True):
    streams: list[str]


class AppendRecords(StreamRequest, frozen=True):
    """The records themselves come beside this, in the way of the wire."""

    partition: int | None = None


class PartitionAppend(Reply, frozen=True):
    partition: int
    base_offset: int
    end_offset: int
    repeated: bool = False


class AppendReceipt(Reply, frozen=True):
    appends: list[PartitionAppend]
    durability: str
    """What this acknowledgement guarantees."""


class ReadRecords(StreamRequest, frozen=True):
    partition: int = 0
    offset: int | None = None
    time: str | None = None
    """The first record that is not older than this; an alternative to `offset`."""
    at: str | None = None
    """`earliest` or `latest`; an alternative to `offset` and `time`."""
    limit: int | None = None
    """Records at the most."""
    bytes_max: int | None = None
    wait_ms: int = 0
    """How long to wait when there is nothing yet."""


class FindOffset(StreamRequest, frozen=True):
    partition: int = 0
    time: str | None = None
    at: str | None = None


class FoundOffset(Reply, frozen=True):
    offset: int
    start_offset: int
    end_offset: int


class Subscribe(StreamRequest, frozen=True):
    partition: int = 0
    offset: int | None = None
    time: str | None = None
    at: str | None = None
    window: int = 10_000
    """Records that may be under way and not yet acknowledged."""


class SplitStream(StreamRequest, frozen=True):
    """A range of one partition, to be cut into pieces that can be read side by side."""

    partition: int = 0
    offset: int | None = None
    """Where the range begins; the beginning of the log when it is left out."""
    end_offset: int | None = None
    """Where it ends; the end of the log when it is left out."""
    split_bytes: int = SPLIT_BYTES_DEFAULT
    """How large a piece may be, as stored."""


class SplitDescription(Reply, frozen=True):
    base_offset: int
    end_offset: int
    size_bytes: int
    """As stored, to within an interval of the index."""


class StreamSplits(Reply, frozen=True):
    partition: int
    start_offset: int
    end_offset: int
    """The bounds of the log, now."""
    splits: list[SplitDescription]
    """In order; together they are the whole range."""


# --- groups -------------------------------------------------------------------------------------------------------


class GroupRequest(StreamRequest, frozen=True):
    """Addresses one group of a stream."""

    group: str


class CommitGroup(GroupRequest, frozen=True):
    """Says all about the group, but for the offsets of partitions that it does not name: those stay."""

    offsets: dict[int, int] = {}
    """By partition: the next offset to read."""
    kind: str = "consumer"
    """`consumer`, `spark` or `archive`."""
    hold_s: int | None = None
    """Retention keeps what the group has not read, in the partitions that it ever committed, until the node has run so
    long after its last commit. Null: it holds nothing."""
    location: str | None = None
    """Of an archive: where its cold tier lies."""


class DescribeGroup(GroupRequest, frozen=True):
    pass


class DeleteGroup(GroupRequest, frozen=True):
    pass


class ListGroups(StreamRequest, frozen=True):
    pass


class GroupPosition(Reply, frozen=True):
    partition: int
    offset: int
    """The next one to read."""
    end_offset: int
    lag: int
    """Records between the two."""
    start_offset: int
    """Of the log. When it is larger than `offset`, what lies between is gone."""


class GroupDescription(Reply, frozen=True):
    tenant: str
    namespace: str
    stream: str
    group: str
    kind: str
    created: str
    updated: str
    """The last commit."""
    hold_s: int | None
    hold_expires: str | None
    """When the hold ends if nothing is committed and the node keeps running; it may have passed. Null: no hold."""
    holding: bool
    """Whether retention keeps what the group has not read, now."""
    location: str | None
    partitions: list[GroupPosition]
    """Those that were ever committed."""
    lag: int
    """The sum over the partitions."""


class GroupList(Reply, frozen=True):
    groups: list[GroupDescription]
