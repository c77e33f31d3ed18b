"""What a node must hold after whatever happened to it: tenants, streams, tokens, records, and who sent them.

The expected values are kept here, outside the node. What was asked and not answered is unsure, and the next check takes
for true what it finds of it; what was answered is not up for discussion.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from flowmesh.access import tokens
from flowmesh.catalog import events
from flowmesh.catalog.machine import CatalogMachine
from flowmesh.catalog.model import DEFAULT_TENANT, StreamKey, StreamSettings
from flowmesh.format import columns
from flowmesh.format.batch import Batch
from flowmesh.node import paths
from flowmesh.node.node import Node
from flowmesh.node.partition import StreamPartition
from flowmesh.node.streams import OpenStream
from flowmesh.sim.checker import Expectations, Fate
from flowmesh.sim.disk import SimDisk
from flowmesh.streams.machine import StreamMachine

REMEMBERED = 5
"""How many of its last batches a producer may repeat."""
HOLDER = "holder"
"""The group that keeps from retention what it has not read."""
Positions: TypeAlias = dict[int, int] | None
"""The next offset that a group reads, by partition. None: there is no such group."""


class KeptBatch(NamedTuple):
    """A batch that its producer keeps, to send it again when it has to."""

    number: int
    """In what is expected of the partition."""
    batch: Batch


@dataclass(slots=True)
class Sending:
    """An idempotent producer, as it knows itself."""

    epoch: int = 0
    next_sequence: int = 0
    kept: list[KeptBatch] = field(default_factory=list)
    fenced: KeptBatch | None = None
    """Of an epoch that is over: it must never be taken again."""

    def copy(self) -> Sending:
        return Sending(self.epoch, self.next_sequence, [*self.kept], self.fenced)


@dataclass(slots=True)
class KnownPartition:
    log: Expectations = field(default_factory=Expectations)
    chain_hash: bytes | None = None
    """Who it is. None until somebody has seen it."""
    producers: dict[int, Sending] = field(default_factory=dict)

    def copy(self) -> KnownPartition:
        producers = {number: sending.copy() for number, sending in self.producers.items()}
        return KnownPartition(self.log.copy(), self.chain_hash, producers)

    def unsettled(self, producer_id: int) -> list[KeptBatch]:
        """What that producer sent and does not know to be stored, in order."""
        sending = self.producers.setdefault(producer_id, Sending())
        stored = (Fate.DURABLE, Fate.WRITTEN)
        return [kept for kept in sending.kept if self.log.sent[kept.number].fate not in stored]


@dataclass(slots=True)
class KnownStream:
    settings: list[StreamSettings]
    """More than one while a change is unsure."""
    partitions: list[KnownPartition]
    sure: bool = False
    """Whether its creation was acknowledged, and no deletion was asked for since."""
    groups: dict[str, list[Positions]] = field(default_factory=dict)
    """Where each group stands; more than one while a change is unsure."""

    def copy(self) -> KnownStream:
        groups = {name: [*positions] for name, positions in self.groups.items()}
        return KnownStream([*self.settings], [partition.copy() for partition in self.partitions], self.sure, groups)

    def held(self) -> int | None:
        """The offset of its first partition that nothing may be trimmed above, as far as it is sure."""
        positions = self.groups.get(HOLDER, [])
        return positions[0].get(0) if len(positions) == 1 and positions[0] is not None else None


class KnownToken(NamedTuple):
    text: str
    tenant: str
    sure: bool = True
    """Whether it has to be good: nobody has asked to revoke it."""


@dataclass(slots=True)
class KnownNode:
    lives: int = 0
    tenants: dict[str, bool] = field(default_factory=lambda: {DEFAULT_TENANT: True})
    """False: unsure."""
    streams: dict[StreamKey, KnownStream] = field(default_factory=dict)
    tokens: dict[str, KnownToken] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    first_tokens: list[str] = field(default_factory=list)
    """Kept for the operator before the catalog knew them; a crash in between leaves some that are good for nothing."""
    tokens_unsure: int = 0
    """Asked for and never told: so many may be there that nobody knows."""
    leftovers: set[str] = field(default_factory=set)
    """Directories of streams whose creation failed or was never answered; the next one of that name takes them away."""

    def copy(self) -> KnownNode:
        return KnownNode(
            self.lives, {**self.tenants}, {key: stream.copy() for key, stream in self.streams.items()},
            {**self.tokens}, {*self.revoked}, [*self.first_tokens], self.tokens_unsure, {*self.leftovers},
        )  # fmt: skip

    def check(self, node: Node, disk: SimDisk, *, machine_died: bool, faulty: bool = False) -> list[str]:
        """What is wrong with a node that was just started. `faulty`: its disk failed while it started."""
        problems = [] if faulty else [f"{'/'.join(key)} cannot be opened: {why}" for key, why in node.damaged.items()]
        problems += self._check_tenants(node)
        problems += self._check_tokens(node)
        problems += self._check_streams(node, machine_died)
        problems += [] if faulty else self._check_space(node, disk)
        problems += _check_catalog_fold(node)
        return problems

    def _check_tenants(self, node: Node) -> list[str]:
        found = node.catalog.machine.state.tenants.keys()
        problems = [f"tenant {name} is lost" for name, sure in self.tenants.items() if sure and name not in found]
        problems += [f"tenant {name} was never created, or was deleted" for name in found - self.tenants.keys()]
        self.tenants = dict.fromkeys(sorted(found), True)
        return problems

    def _check_tokens(self, node: Node) -> list[str]:
        problems = []
        for token_id, token in list(self.tokens.items()):
            good = is_good(node, token.text)
            if token.sure and not good:
                problems.append(f"token {token_id} is lost")
            if good:
                self.tokens[token_id] = token._replace(sure=True)
            else:
                del self.tokens[token_id]
        if not any(is_good(node, text) for text in self.first_tokens):
            problems.append("the operator cannot come in")
        found = node.catalog.machine.state.tokens.keys()
        problems += [f"token {token_id} was revoked and is there" for token_id in sorted(self.revoked & found)]
        first = {text.partition(".")[0] for text in self.first_tokens}
        strangers = found - self.tokens.keys() - first
        if len(strangers) > self.tokens_unsure:
            problems.append(f"{len(strangers)} tokens are there that nobody was given")
        return problems

    def _check_streams(self, node: Node, machine_died: bool) -> list[str]:
        problems = []
        state = node.catalog.machine.state
        problems += [
            f"stream {'/'.join(key)} was never created, or was deleted"
            for key in state.streams.keys() - self.streams.keys()
        ]
        for key, known in sorted(self.streams.items()):
            path = "/".join(key)
            if key not in state.streams:
                if known.sure:
                    problems.append(f"stream {path} is lost")
                self.leftovers.add(paths.resource_directory(paths.STREAMS, path))
                del self.streams[key]
            elif key in node.streams:
                opened = node.streams[key]
                problems += [f"{path}: {what}" for what in _check_stream(known, opened, machine_died)]
                problems += [f"{path}: {what}" for what in _check_groups(known, node, opened)]
        return problems

    def _check_space(self, node: Node, disk: SimDisk) -> list[str]:
        problems = []
        if node.catalog.machine.state.deleted:
            problems.append("a deleted stream is still to be removed after a start")
        known = {paths.resource_directory(paths.STREAMS, "/".join(key)) for key in self.streams}
        found = {f"{paths.STREAMS}/{name}" for name in disk.names(f"{node.directory}/{paths.STREAMS}")}
        return [*problems, *(f"{name} is left over" for name in sorted(found - known - self.leftovers))]


def is_good(node: Node, text: str) -> bool:
    identity, _, secret = text.partition(".")
    record = node.catalog.machine.state.tokens.get(identity)
    return record is not None and tokens.proves(secret, record.secret_hash)


def _check_stream(known: KnownStream, opened: OpenStream, machine_died: bool) -> list[str]:
    problems = []
    settings = opened.stream.settings
    if settings not in known.settings:
        problems.append(f"its settings are {settings}, which nobody asked for last")
    known.settings, known.sure = [settings], True
    if len(opened.partitions) != len(known.partitions):
        return [*problems, f"it has {len(opened.partitions)} partitions"]
    for number, (partition, found) in enumerate(zip(known.partitions, opened.partitions, strict=True)):
        chain_hash = found.view.chain.hash
        if partition.chain_hash not in (None, chain_hash):
            problems.append(f"partition {number} is another chain")
        partition.chain_hash = chain_hash
        problems += [
            f"partition {number}: {what}"
            for what in [*partition.log.check(found.view, machine_died=machine_died), *_check_fold(found)]
        ]
    return problems


def _check_groups(known: KnownStream, node: Node, opened: OpenStream) -> list[str]:
    found = {group.name: group.offsets for group in node.groups.machine.of_stream(opened.stream.id)}
    problems = [
        f"group {name} is at {found.get(name)}, not at {known.groups.get(name, [None])}"
        for name in sorted(known.groups.keys() | found.keys())
        if found.get(name) not in known.groups.get(name, [None])
    ]
    known.groups = {name: [offsets] for name, offsets in found.items()}
    return problems


def _check_fold(partition: StreamPartition) -> list[str]:
    """The state that a start came to, by whatever short cut, against that of the whole log."""
    view = partition.view
    if view.start_offset:
        return []  # what was trimmed is known from a snapshot alone
    whole = StreamMachine()
    for block in view.blocks():
        whole.apply(block.batch_header, block.base_offset)
    return [] if whole.snapshot() == partition.machine.snapshot() else ["its machine is not what its log says"]


def _check_catalog_fold(node: Node) -> list[str]:
    whole, view = CatalogMachine(), node.catalog.appender.view
    for block in view.blocks():
        for value in columns.decode(block.batch).values.items():
            whole.apply(events.decode(value))
    problems = [f"catalog: {damage.describe()}" for damage in view.damage]
    if whole.snapshot() != node.catalog.machine.snapshot():
        problems.append("the catalog is not what its log says")
    return problems
