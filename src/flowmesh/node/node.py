"""A node: its data directory, its catalog, its open streams, and the changes that an administrator makes to them.

Every method is plain blocking code for the one owner of the logs; readers use `stream` and the views it leads to.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec

from flowmesh.access import tokens
from flowmesh.access.permissions import EVERYTHING, Permission
from flowmesh.base.errors import AlreadyOpen, CorruptData, DiskFull, FlowMeshError, NotFound
from flowmesh.base.limits import CHAIN_LOCAL_ID_BYTES, DISK_RESERVE_BYTES_DEFAULT
from flowmesh.catalog import commands
from flowmesh.catalog.model import DEFAULT_TENANT, Stream, StreamKey, StreamSettings, Tenant, Token, no_stream
from flowmesh.format.chain import checked, require_version
from flowmesh.log import directory as files
from flowmesh.log.open_log import open_log
from flowmesh.log.options import LogOptions
from flowmesh.node import paths
from flowmesh.node.catalog import CatalogPartition
from flowmesh.node.groups import GroupsPartition, open_groups
from flowmesh.node.partition import StreamPartition
from flowmesh.node.statistics import CommitStatistics
from flowmesh.node.streams import OpenStream, StreamStore, checked_settings, retention_of, storage_failed
from flowmesh.ports.clock import Clock
from flowmesh.ports.disk import Disk, Lock
from flowmesh.ports.entropy import Entropy

FORMAT = "flowmesh.node"
VERSION = 1


class Node:
    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        entropy: Entropy,
        directory: str,
        lock: Lock,
        node_id: str,
        catalog: CatalogPartition,
        groups: GroupsPartition,
        disk_reserve_bytes: int,
    ) -> None:
        self.id = node_id
        self.directory = directory
        self.catalog = catalog
        self.groups = groups
        self.streams: dict[StreamKey, OpenStream] = {}
        """Replaced, never changed, so that readers may look without a lock."""
        self.damaged: dict[StreamKey, FlowMeshError] = {}
        """Streams that could not be opened, and why; the node serves all others."""
        self._on_durable: Callable[[StreamPartition], None] | None = None
        self._entropy = entropy
        self._clock = clock
        self._lock = lock
        self._store = StreamStore(disk, clock, entropy, directory, disk_reserve_bytes)
        self._disk = disk

    # --- opening and closing ------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        disk: Disk,
        clock: Clock,
        entropy: Entropy,
        directory: str,
        keep_token: Callable[[str], None],
        disk_reserve_bytes: int = DISK_RESERVE_BYTES_DEFAULT,
    ) -> Node:
        """The node in `directory`, made there when it is empty, with every log recovered.

        `keep_token` is given the administrator's token on the first start, before the catalog knows it: a crash in
        between leaves a token that is good for nothing, never a node without one.
        """
        files.make_directory(disk, directory)
        try:
            lock = disk.lock(f"{directory}/{paths.LOCK_FILE}")
        except BlockingIOError as error:
            raise AlreadyOpen(
                f"another node runs on {directory}.", hint="Stop it, or give this one a --data-dir of its own."
            ) from error
        try:
            node_id = _node_id(disk, entropy, directory)
            catalog = _open_catalog(disk, clock, entropy, directory)
            groups = open_groups(disk, clock, entropy, directory)
            node = cls(disk, clock, entropy, directory, lock, node_id, catalog, groups, disk_reserve_bytes)
            node._start(keep_token)
        except BaseException:
            lock.release()
            raise
        return node

    def _start(self, keep_token: Callable[[str], None]) -> None:
        state = self.catalog.machine.state
        if not state.tenants and not self.catalog.appender.view.end_offset:
            self.catalog.execute(commands.AddTenant(DEFAULT_TENANT))
        if not any(map(self._is_operator, state.tokens.values())):
            first = tokens.make(self._entropy)
            keep_token(first.text)
            self._add_token(first, EVERYTHING, (EVERYTHING,), (Permission.ADMIN,), None, "the first administrator")
        files.make_directory(self._disk, f"{self.directory}/{paths.STREAMS}")
        self._forget_deleted()
        self._store.sweep()
        self._forget_groups()
        for key, stream in state.streams.items():
            self._open_stream(key, stream)

    def _is_operator(self, token: Token) -> bool:
        good = token.expires_ns is None or token.expires_ns > self._clock.wall_ns()
        return good and token.tenant == EVERYTHING and Permission.ADMIN in token.permissions

    def _open_stream(self, key: StreamKey, stream: Stream) -> None:
        """One that cannot be opened is kept apart with its reason, and no other suffers."""
        try:
            opened = self._store.open(stream)
        except FlowMeshError as error:
            self.damaged = {**self.damaged, key: error}
            return
        for partition in opened.partitions:
            partition.on_durable = self._on_durable
        self.streams = {**self.streams, key: opened}

    def watch(self, on_durable: Callable[[StreamPartition], None]) -> None:
        """Has the owner tell when more became durable of partitions that are synced by interval, also of later ones."""
        self._on_durable = on_durable
        for opened in self.streams.values():
            for partition in opened.partitions:
                partition.on_durable = on_durable

    def close(self) -> None:
        """Everything synced, with snapshots and clean marks. A log that fails keeps no other from being closed."""
        failures: list[FlowMeshError | OSError] = []
        logs: list[StreamPartition | GroupsPartition | CatalogPartition] = []
        for opened in self.streams.values():
            logs += opened.partitions
        self.streams = {}
        try:
            for log in (*logs, self.groups, self.catalog):
                try:
                    log.close()
                except (FlowMeshError, OSError) as error:
                    failures.append(error)
        finally:
            self._lock.release()
        if failures:
            raise failures[0]

    # --- streams ------------------------------------------------------------------------------------------------

    def stream(self, key: StreamKey) -> OpenStream:
        found = self.streams.get(key)
        if found is not None:
            return found
        error = self.damaged.get(key)
        if error is not None:
            raise error
        raise no_stream("/".join(key))

    def create_stream(self, key: StreamKey, settings: StreamSettings) -> Stream:
        checked_settings(settings)
        self.catalog.require(commands.AddStream(*key, settings))
        try:
            self._store.require_space()
            self._store.make("/".join(key), settings)
        except OSError as error:
            raise storage_failed(f"stream {'/'.join(key)!r} could not be made", error)
        try:
            stream: Stream = self.catalog.execute(commands.AddStream(*key, settings))
        except DiskFull:
            self._store.unmake("/".join(key))
            raise
        self._open_stream(key, stream)
        return stream

    def alter_stream(self, key: StreamKey, settings: StreamSettings) -> Stream:
        """New settings. Retention holds at once; segment limits and durability for what is appended from now on."""
        checked_settings(settings)
        opened = self.stream(key)
        stream: Stream = self.catalog.execute(commands.ChangeStream(*key, settings))
        opened.alter(stream)
        with suppress(OSError):  # a description for people; the next start writes it again
            self._store.describe(stream)
        return stream

    def delete_stream(self, key: StreamKey) -> None:
        self.catalog.execute(commands.DropStream(*key))
        opened = self.streams.get(key)
        self.streams = {other: kept for other, kept in self.streams.items() if other != key}
        self.damaged = {other: error for other, error in self.damaged.items() if other != key}
        for partition in opened.partitions if opened is not None else ():
            partition.discard()
        self._forget_deleted()
        self._forget_groups()

    def _forget_deleted(self) -> None:
        """Takes deleted streams off the disk. What cannot be removed now is tried again by upkeep."""
        state = self.catalog.machine.state
        for stream in list(state.deleted.values()):
            if self.catalog.appender.failure is not None:
                return  # nobody knows whether there is a new one of the same name
            try:
                self._store.remove(stream, replaced=(stream.tenant, stream.namespace, stream.name) in state.streams)
                self.catalog.execute(commands.ForgetStream(stream.id))
            except (FlowMeshError, OSError):
                continue

    def _forget_groups(self) -> None:
        """Those of streams that are no more. What cannot be written down now is tried again by upkeep."""
        with suppress(FlowMeshError):
            self.groups.keep_only(stream.id for stream in self.catalog.machine.state.streams.values())

    @property
    def statistics(self) -> CommitStatistics:
        return self._store.statistics

    def free_bytes(self) -> int:
        return self._disk.free_bytes(self.directory)

    def trim(self) -> int:
        """Applies every stream's retention once; returns how many segments went. A log that fails is passed over:
        its own failure says so to whoever uses it. What a group holds stays."""
        with suppress(FlowMeshError):
            self.groups.note_time()
        count = 0
        for opened in list(self.streams.values()):
            retention = retention_of(opened.stream.settings)
            opened.hold(self.groups.held(opened.stream.id))
            for partition in opened.partitions:
                with suppress(FlowMeshError):
                    count += partition.trim(retention)
        self._forget_deleted()
        self._forget_groups()
        return count

    # --- tenants and tokens -------------------------------------------------------------------------------------

    def create_tenant(self, name: str) -> Tenant:
        tenant: Tenant = self.catalog.execute(commands.AddTenant(name))
        return tenant

    def delete_tenant(self, name: str) -> None:
        self.catalog.execute(commands.DropTenant(name))

    def create_token(
        self,
        tenant: str,
        namespaces: tuple[str, ...],
        permissions: tuple[str, ...],
        expires_ns: int | None,
        description: str,
    ) -> tokens.FreshToken:
        made = tokens.make(self._entropy)
        self._add_token(made, tenant, namespaces, permissions, expires_ns, description)
        return made

    def _add_token(
        self,
        made: tokens.FreshToken,
        tenant: str,
        namespaces: tuple[str, ...],
        permissions: tuple[str, ...],
        expires_ns: int | None,
        description: str,
    ) -> None:
        now = self._clock.wall_ns()
        record = Token(made.id, tenant, namespaces, permissions, made.secret_hash, now, expires_ns, description)
        self.catalog.execute(commands.AddToken(record))

    def rotate_token(self, token_id: str, overlap_ns: int) -> tokens.FreshToken:
        """A new secret for the same rights; the old one is good for `overlap_ns` more."""
        old = self.catalog.machine.state.tokens.get(token_id)
        if old is None:
            raise NotFound(f"there is no token {token_id!r}.", field="id")
        made = tokens.make(self._entropy)
        now = self._clock.wall_ns()
        successor = msgspec.structs.replace(
            old, id=made.id, secret_hash=made.secret_hash, created_ns=now, replaced_by=None
        )
        self.catalog.execute(commands.SwapToken(token_id, successor, now + overlap_ns))
        return made

    def revoke_token(self, token_id: str) -> None:
        self.catalog.execute(commands.DropToken(token_id))


def _node_id(disk: Disk, entropy: Entropy, directory: str) -> str:
    data = files.read_file(disk, directory, paths.NODE_FILE)
    if data is not None:
        node_id = require_version(data, FORMAT, VERSION).get("id")
        if not isinstance(node_id, str):
            raise CorruptData(f"{directory}/{paths.NODE_FILE} is damaged: it has no id.")
        return node_id
    if disk.exists(f"{directory}/{paths.CATALOG}") or disk.exists(f"{directory}/{paths.STREAMS}"):
        raise CorruptData(
            f"{directory} holds data, and its {paths.NODE_FILE} is missing.",
            hint="Restore that file from a copy. Nothing was changed.",
        )
    node_id = entropy.random_bytes(8).hex()
    body = {"format": FORMAT, "version": VERSION, "id": node_id}
    files.write_file(disk, directory, paths.NODE_FILE, msgspec.json.encode(body) + b"\n")
    return node_id


def _open_catalog(disk: Disk, clock: Clock, entropy: Entropy, directory: str) -> CatalogPartition:
    place = f"{directory}/{paths.CATALOG}"
    if disk.exists(f"{directory}/{paths.STREAMS}") and not disk.exists(place):
        raise CorruptData(
            f"{directory} holds streams, and its catalog is missing.",
            hint="Restore it from a copy. Nothing was changed.",
        )
    identity = checked(entropy.random_bytes(CHAIN_LOCAL_ID_BYTES), "metadata:catalog:0", clock.wall_ns())
    # It may use the reserve: what is deleted from a full disk has to be written down.
    options = LogOptions(disk_reserve_bytes=0)
    return CatalogPartition(disk, clock, open_log(disk, place, clock, options, create=identity))
