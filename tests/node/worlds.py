"""A node on a simulated disk for tests of one thing at a time. Whole days with crashes are `flowmesh.sim`'s."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flowmesh.access import tokens
from flowmesh.base.errors import FlowMeshError
from flowmesh.catalog.model import StreamKey, StreamSettings
from flowmesh.format import columns
from flowmesh.format.batch import Producer
from flowmesh.log.commit import Submission, commit
from flowmesh.node.node import Node
from flowmesh.sim.clock import SimClock
from flowmesh.sim.disk import SimDisk
from flowmesh.sim.entropy import SimEntropy
from flowmesh.streams.machine import AppendBatch, AppendCommand, AppendRecord

DATA = "/data"


@dataclass
class World:
    """One machine, and what its one producer has sent to each stream."""

    disk: SimDisk
    kept_tokens: list[str] = field(default_factory=list)
    sequences: dict[StreamKey, int] = field(default_factory=dict)

    def open(self) -> Node:
        entropy = SimEntropy(1_000 * len(self.kept_tokens) + self.disk.operations)
        self.node = Node.open(self.disk, SimClock(tick_ns=1_000), entropy, DATA, self.kept_tokens.append, 0)
        return self.node

    def after(self, disk: SimDisk) -> World:
        """The same knowledge on the disk that a crash left."""
        return World(disk, [*self.kept_tokens], {**self.sequences})

    def create(self, key: StreamKey, settings: StreamSettings) -> None:
        self.node.create_stream(key, settings)
        self.sequences[key] = 0

    def alter(self, key: StreamKey, settings: StreamSettings) -> None:
        self.node.alter_stream(key, settings)

    def delete(self, key: StreamKey) -> None:
        self.node.delete_stream(key)

    def append(self, key: StreamKey, *values: bytes) -> None:
        commit_to(self.node, key, AppendBatch(columns.encode(values, producer=Producer(1, 0, self.sequences[key]))))
        self.sequences[key] += len(values)

    def chain(self, key: StreamKey) -> bytes:
        return self.node.stream(key).partition(0).view.chain.hash


def commit_to(node: Node, key: StreamKey, *group: AppendCommand) -> list[Any]:
    """One round of the writer for the first partition of a stream; raises when any of it failed."""
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


def record(value: bytes) -> AppendRecord:
    return AppendRecord(value)
