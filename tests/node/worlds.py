"""A node on a simulated disk, and an administrator who notes what was acknowledged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flowmesh.access import tokens
from flowmesh.base.errors import FlowMeshError
from flowmesh.catalog.model import StreamKey, StreamSettings
from flowmesh.format import columns
from flowmesh.format.batch import Producer
from flowmesh.log.commit import commit
from flowmesh.node.node import Node
from flowmesh.sim.clock import SimClock
from flowmesh.sim.disk import SimDisk
from flowmesh.sim.entropy import SimEntropy
from flowmesh.streams.machine import AppendBatch, AppendCommand, AppendRecord

DATA = "/data"


@dataclass
class World:
    """One machine. What `known` holds was acknowledged: it has to be there after any crash."""

    disk: SimDisk
    seed: int = 0
    kept_tokens: list[str] = field(default_factory=list)
    streams: dict[StreamKey, bytes] = field(default_factory=dict)
    """The chain hash of each stream's first partition: who it is."""
    settings: dict[StreamKey, StreamSettings] = field(default_factory=dict)
    records: dict[StreamKey, list[bytes]] = field(default_factory=dict)
    tenants: set[str] = field(default_factory=set)
    tokens: dict[str, str] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    unsure: set[Any] = field(default_factory=set)
    """What was asked and not answered: it may or may not have happened."""

    def open(self) -> Node:
        entropy = SimEntropy(self.seed + 1_000 * len(self.kept_tokens) + self.disk.operations)
        self.node = Node.open(self.disk, SimClock(tick_ns=1_000), entropy, DATA, self.kept_tokens.append, 0)
        return self.node

    def after(self, disk: SimDisk) -> World:
        """The same knowledge on the disk that a crash left."""
        return World(
            disk, self.seed, [*self.kept_tokens], {**self.streams}, {**self.settings},
            {key: [*values] for key, values in self.records.items()},
            {*self.tenants}, {**self.tokens}, {*self.revoked}, {*self.unsure},
        )  # fmt: skip

    # --- what an administrator does -----------------------------------------------------------------------------

    def _ask(self, about: Any, change: Callable[[], Any]) -> Any:
        self.unsure.add(about)
        result = change()
        self.unsure.discard(about)
        return result

    def create_tenant(self, name: str) -> None:
        self._ask(name, lambda: self.node.create_tenant(name))
        self.tenants.add(name)

    def create(self, key: StreamKey, settings: StreamSettings) -> None:
        self._ask(key, lambda: self.node.create_stream(key, settings))
        self.streams[key] = self.chain(key)
        self.settings[key], self.records[key] = settings, []

    def alter(self, key: StreamKey, settings: StreamSettings) -> None:
        self._ask((key, "settings"), lambda: self.node.alter_stream(key, settings))
        self.settings[key] = settings

    def delete(self, key: StreamKey) -> None:
        self._ask(key, lambda: self.node.delete_stream(key))
        del self.streams[key], self.settings[key], self.records[key]

    def append(self, key: StreamKey, *values: bytes) -> None:
        command = AppendBatch(columns.encode(values, producer=Producer(1, 0, len(self.records[key]))))
        self._ask((key, "records"), lambda: self.commit(key, command))
        self.records[key] += values

    def commit(self, key: StreamKey, *group: AppendCommand) -> list[Any]:
        return commit_to(self.node, key, *group)

    def add_token(self, tenant: str) -> str:
        made: tokens.FreshToken = self._ask(
            "token", lambda: self.node.create_token(tenant, ("*",), ("admin",), None, "")
        )
        self.tokens[made.id] = made.text
        return made.id

    def rotate(self, token_id: str) -> str:
        made: tokens.FreshToken = self._ask(token_id, lambda: self.node.rotate_token(token_id, 10**18))
        self.tokens[made.id] = made.text
        return made.id

    def revoke(self, token_id: str) -> None:
        self._ask(token_id, lambda: self.node.revoke_token(token_id))
        del self.tokens[token_id]
        self.revoked.add(token_id)

    def chain(self, key: StreamKey) -> bytes:
        return self.node.stream(key).partition(0).view.chain.hash


def commit_to(node: Node, key: StreamKey, *group: AppendCommand) -> list[Any]:
    """One round of the writer for the first partition of a stream; raises when any of it failed."""
    from flowmesh.log.commit import Submission

    completed = commit([Submission(node.stream(key).partition(0), group, lambda _results: None)])
    results = list(completed[0].results)
    for result in results:
        if isinstance(result, FlowMeshError):
            raise result
    return results


def values_of(node: Node, key: StreamKey) -> list[bytes]:
    found: list[bytes] = []
    for block in node.stream(key).partition(0).view.blocks():
        found += columns.decode(block.batch).values.items()
    return found


def proves(node: Node, text: str) -> bool:
    identity, _, secret = text.partition(".")
    record = node.catalog.machine.state.tokens.get(identity)
    return record is not None and tokens.proves(secret, record.secret_hash)


def digest_of(disk: SimDisk) -> str:
    return hashlib.sha256(repr(sorted(disk.files().items())).encode()).hexdigest()


def record(value: bytes) -> AppendRecord:
    return AppendRecord(value)
