"""What administrators, producers and readers ask of a node, and what they were told, noted down outside of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from flowmesh.access.tokens import FreshToken
from flowmesh.base.durability import Durability, Policy
from flowmesh.base.errors import FlowMeshError, ProducerFenced
from flowmesh.catalog.model import DEFAULT_TENANT, StreamKey, StreamSettings
from flowmesh.format import columns
from flowmesh.format.batch import Batch, Producer
from flowmesh.groups.commands import Command, CommitOffsets, DropGroup
from flowmesh.groups.model import GroupKind
from flowmesh.node import paths
from flowmesh.node.partition import AppendReply
from flowmesh.sim.checker import TAG_BYTES, Row
from flowmesh.sim.node_checker import (
    HOLDER,
    REMEMBERED,
    KeptBatch,
    KnownPartition,
    KnownStream,
    KnownToken,
    Positions,
    Sending,
)
from flowmesh.sim.node_machine import NodeMachine, Outcome, Part
from flowmesh.sim.scenario import Stopped
from flowmesh.streams.machine import AppendBatch, AppendCommand, AppendRecord

USED: StreamKey = (DEFAULT_TENANT, "recovered", "used")
PRODUCER = 1
HOLD_NS = 10**18
UNSETTLED_MAX = 3
"""Batches that a producer has under way at most: fewer than those it may repeat."""


class Append(NamedTuple):
    """Commands for one partition that become one batch, and what has to come of them."""

    part: Part
    number: int
    commands: Sequence[AppendCommand]
    repeats: bool = False
    """It was stored before; the answer has to say so, and where."""
    fenced: bool = False
    """A newer epoch has begun; it has to be refused."""


class NodeWorld(NodeMachine):
    # ---- what an administrator does

    def create_tenant(self, name: str) -> None:
        self.expected.tenants[name] = False
        outcome = self.attempt(f"create tenant {name}", partial(self.node.create_tenant, name))
        if outcome is Outcome.DONE:
            self.expected.tenants[name] = True
        elif outcome is Outcome.REFUSED:
            del self.expected.tenants[name]

    def delete_tenant(self, name: str) -> None:
        if not self.expected.tenants.get(name) or any(tenant == name for tenant, _, _ in self.expected.streams):
            return
        self.expected.tenants[name] = False
        held = [token_id for token_id, token in self.expected.tokens.items() if token.tenant == name]
        outcome = self._end_tokens(held, f"delete tenant {name}", partial(self.node.delete_tenant, name))
        if outcome is Outcome.DONE:
            del self.expected.tenants[name]
        elif outcome is Outcome.REFUSED:
            self.expected.tenants[name] = True

    def create(self, key: StreamKey, settings: StreamSettings) -> None:
        """Nothing is asked where the last answer is unknown: the next start will tell."""
        if key in self.expected.streams or not self.expected.tenants.get(key[0]):
            return
        directory = paths.resource_directory(paths.STREAMS, "/".join(key))
        known = KnownStream([settings], [KnownPartition() for _ in range(settings.partitions)])
        self.expected.streams[key] = known
        outcome = self.attempt(f"create {'/'.join(key)}", partial(self.node.create_stream, key, settings))
        if outcome is Outcome.REFUSED:
            del self.expected.streams[key]
            self.expected.leftovers.add(directory)
        elif outcome is Outcome.DONE:
            known.sure = True
            self.expected.leftovers.discard(directory)
            opened = self.node.streams.get(key)
            for partition, found in zip(known.partitions, opened.partitions if opened else (), strict=False):
                partition.chain_hash = found.view.chain.hash

    def alter(self, key: StreamKey, settings: StreamSettings) -> None:
        if not self.is_usable(key):
            return
        known = self.expected.streams[key]
        before, known.settings = known.settings, [*known.settings, settings]
        outcome = self.attempt(f"alter {'/'.join(key)}", partial(self.node.alter_stream, key, settings))
        if outcome is not Outcome.UNKNOWN:
            known.settings = [settings] if outcome is Outcome.DONE else before

    def delete(self, key: StreamKey) -> None:
        """Also one whose log is out of use can be deleted."""
        known = self.expected.streams.get(key)
        if known is None or not known.sure:
            return
        known.sure = False
        outcome = self.attempt(f"delete {'/'.join(key)}", partial(self.node.delete_stream, key))
        if outcome is Outcome.DONE:
            del self.expected.streams[key]
        elif outcome is Outcome.REFUSED:
            known.sure = True

    def add_token(self, tenant: str) -> str | None:
        if not self.expected.tenants.get(tenant):
            return None
        return self._new_token(tenant, partial(self.node.create_token, tenant, ("*",), ("admin",), None, ""))

    def rotate(self, token_id: str | None) -> str | None:
        if token_id is None or token_id not in self.expected.tokens:
            return None
        tenant = self.expected.tokens[token_id].tenant
        return self._new_token(tenant, partial(self.node.rotate_token, token_id, 10**18))

    def revoke(self, token_id: str | None) -> None:
        if token_id is not None and token_id in self.expected.tokens:
            self._end_tokens([token_id], f"revoke {token_id}", partial(self.node.revoke_token, token_id))

    def _end_tokens(self, token_ids: Sequence[str], what: str, change: Callable[[], None]) -> Outcome:
        before = {token_id: self.expected.tokens[token_id] for token_id in token_ids}
        self.expected.tokens.update({token_id: token._replace(sure=False) for token_id, token in before.items()})
        outcome = self.attempt(what, change)
        if outcome is Outcome.DONE:
            self.expected.revoked.update(token_ids)
            for token_id in token_ids:
                del self.expected.tokens[token_id]
        elif outcome is Outcome.REFUSED:
            self.expected.tokens.update(before)
        return outcome

    def _new_token(self, tenant: str, make: Callable[[], FreshToken]) -> str | None:
        made: list[FreshToken] = []
        self.expected.tokens_unsure += 1
        outcome = self.attempt("make a token", lambda: made.append(make()))
        if outcome is not Outcome.UNKNOWN:
            self.expected.tokens_unsure -= 1
        for fresh in made:
            self.expected.tokens[fresh.id] = KnownToken(fresh.text, tenant)
        return made[0].id if made else None

    # ---- what producers do

    def records(self, part: Part, count: int = 2, size: int = 40) -> list[Append]:
        """Records without a producer. All that one round brings for a partition become one batch, unless each append
        has its own fsync."""
        if not self.is_usable(part.key, part.partition):
            return []
        alone = self._durability(part).policy is Policy.ALWAYS
        return [self._records(part, 1 if alone else count, size) for _ in range(count if alone else 1)]

    def _records(self, part: Part, count: int, size: int) -> Append:
        log = self.known(part).log
        values = self._values(len(log.sent), count, size)
        number = log.sending(tuple(Row(None, value) for value in values))
        return Append(part, number, [AppendRecord(value) for value in values])

    def batch(self, part: Part, count: int = 2, size: int = 40, *, producer: int = PRODUCER) -> list[Append]:
        """The next batch of an idempotent producer; before it goes what is not known to be stored."""
        if not self.is_usable(part.key, part.partition):
            return []
        appends = self.unsettled(part, producer)
        if len(appends) < UNSETTLED_MAX:
            sending = self.known(part).producers[producer]
            appends.append(self._new_batch(part, producer, sending, sending.next_sequence, count, size))
            sending.next_sequence += count
        return appends

    def unsettled(self, part: Part, producer: int = PRODUCER) -> list[Append]:
        """What a producer does when it comes back: all that was not answered goes once more, in order."""
        known = self.known(part)
        appends = []
        for kept in known.unsettled(producer):
            sending = known.producers[producer]
            sending.kept.remove(kept)
            count, first = kept.batch.header.count, kept.batch.header.first_sequence
            appends.append(self._new_batch(part, producer, sending, first, count, 40))
        return appends

    def again(self, part: Part, producer: int = PRODUCER, back: int = 1) -> list[Append]:
        """One of the last batches that were stored, for no other reason than that an answer may get lost."""
        if not self.is_usable(part.key, part.partition):
            return []
        known = self.known(part)
        sending = known.producers.get(producer)
        if sending is None or known.unsettled(producer) or len(sending.kept) < back:
            return []
        kept = sending.kept[-back]
        return [Append(part, kept.number, [AppendBatch(kept.batch)], repeats=True)]

    def fence(self, part: Part, producer: int = PRODUCER) -> list[Append]:
        """Another one takes over the producer's id. From now on the first one's batches have to be refused."""
        if not self.is_usable(part.key, part.partition):
            return []
        known = self.known(part)
        sending = known.producers.get(producer)
        if sending is None or not sending.kept or known.unsettled(producer):
            return []
        known.producers[producer] = successor = Sending(sending.epoch + 1)
        last = sending.kept[-1]
        header = last.batch.header._replace(first_sequence=sending.next_sequence)
        successor.fenced = KeptBatch(last.number, last.batch._replace(header=header))
        return [*self.batch(part, 1, producer=producer)]

    def fenced(self, part: Part, producer: int = PRODUCER) -> list[Append]:
        """The one that was taken over from tries to go on."""
        if not self.is_usable(part.key, part.partition):
            return []
        known = self.known(part)
        sending = known.producers.get(producer)
        if sending is None or sending.fenced is None or not sending.kept or known.unsettled(producer):
            return []
        return [Append(part, -1, [AppendBatch(sending.fenced.batch)], fenced=True)]

    def _new_batch(
        self, part: Part, producer: int, sending: Sending, first_sequence: int, count: int, size: int
    ) -> Append:
        log = self.known(part).log
        values = self._values(len(log.sent), count, size)
        batch: Batch = columns.encode(values, producer=Producer(producer, sending.epoch, first_sequence))
        number = log.sending(tuple(Row(None, value) for value in values))
        sending.kept = [*sending.kept[1 - REMEMBERED :], KeptBatch(number, batch)]
        return Append(part, number, [AppendBatch(batch)])

    def _values(self, number: int, count: int, size: int) -> list[bytes]:
        tag = f"{number:0{TAG_BYTES}d}".encode()
        return [(tag if row == 0 else b"") + self.chance.randbytes(size) for row in range(count)]

    def send(self, *groups: Sequence[Append], apart: bool = False) -> None:
        """One round of the writer, for as many partitions as are named, or several rounds."""
        self.begin()
        for append in (append for group in groups for append in group):
            partition = self.node.streams[append.part.key].partitions[append.part.partition]
            self._writer.submit(partition, append.commands, partial(self._told, append))
        try:
            (self._writer.step_apart if apart else self._writer.step)()
        except OSError as error:
            self.problems.append(f"a round raised instead of answering: {error}")
            raise Stopped from error
        self.look()

    def _told(self, append: Append, results: Sequence[AppendReply | FlowMeshError]) -> None:
        what = f"{append.part.describe()} batch {append.number}"
        log, first = self.known(append.part).log, results[0]
        if append.fenced:
            if not isinstance(first, ProducerFenced) and not self.is_excused(first, append.part.key):
                self.problems.append(f"{what}: a producer of an epoch that is over was answered {first!r}")
        elif isinstance(first, FlowMeshError):
            self.note_failure(what, first, append.part.key)
            if not append.repeats:
                log.refused(append.number, first)
        elif append.repeats:
            if not first.repeated or first.base_offset != log.sent[append.number].base_offset:
                self.problems.append(f"{what} was stored before, and its repetition was answered {first}")
        elif first.repeated:
            self.problems.append(f"{what} was never stored, and is called a repetition")
        else:
            after_sync = self._durability(append.part).policy is not Policy.INTERVAL
            log.acknowledged(append.number, first.base_offset, after_sync=after_sync)
            offsets = [result.base_offset for result in results if isinstance(result, AppendReply)]
            if offsets != [first.base_offset + row for row in range(len(results))]:
                self.problems.append(f"{what}: its records were said to be at {offsets}")

    def _durability(self, part: Part) -> Durability:
        """What is in force: the settings that were acknowledged last."""
        return Durability.parse(self.expected.streams[part.key].settings[0].durability)

    # ---- what groups of readers do

    def commit(self, key: StreamKey, group: str, offsets: dict[int, int]) -> None:
        if self.is_usable(key):
            (before,) = self._positions(key, group)[:1]
            hold_ns = HOLD_NS if group == HOLDER else None
            stream = self.node.streams[key].stream.id
            command = CommitOffsets(stream, group, offsets, GroupKind.CONSUMER, hold_ns)
            self._change_group(key, group, {**(before or {}), **offsets}, command)

    def drop_group(self, key: StreamKey, group: str) -> None:
        if self.is_usable(key) and self._positions(key, group)[0] is not None:
            self._change_group(key, group, None, DropGroup(self.node.streams[key].stream.id, group))

    def _change_group(self, key: StreamKey, group: str, after: Positions, command: Command) -> None:
        before = self._positions(key, group)
        if len(before) > 1:
            return  # nothing is asked where the last answer is unknown
        self.expected.streams[key].groups[group] = [*before, after]
        what = f"{type(command).__name__} of group {group}"
        outcome = self.attempt(what, partial(self._write_group, command), self.node.groups)
        if outcome is not Outcome.UNKNOWN:
            self.expected.streams[key].groups[group] = [after] if outcome is Outcome.DONE else before

    def _write_group(self, command: Command) -> None:
        answers: list[object] = []
        self._writer.submit(self.node.groups, [command], answers.extend)
        self._writer.step()
        for answer in answers:
            if isinstance(answer, FlowMeshError):
                raise answer

    def _positions(self, key: StreamKey, group: str) -> list[Positions]:
        return self.expected.streams[key].groups.get(group, [None])

    # ---- upkeep

    def tick(self) -> None:
        """The moment at which interval logs are synced."""
        self._writer.tick()
        for part, partition in self.open_partitions():
            if partition.failure is None:
                self.known(part).log.synced()
        self.look()

    def trim(self) -> None:
        partitions = list(self.open_partitions())
        for part, partition in partitions:
            settings = self.expected.streams[part.key].settings[0]
            if settings.retention_bytes is not None or settings.retention_age_ms is not None:
                log, held = self.known(part).log, self.expected.streams[part.key].held()
                end = partition.appender.written_end
                log.trimming(end if held is None or part.partition else max(held, log.start_least))
        self.attempt("trim", self.node.trim)
        for part, partition in partitions:
            if partition.failure is None:
                self.problems += self.known(part).log.trimmed(partition.view.start_offset)
        self.look()

    def use(self) -> None:
        self.may_be_full = False
        for key in sorted(self.expected.streams):
            for number in range(len(self.expected.streams[key].partitions)):
                part = Part(key, number)
                self.send(*(self.unsettled(part, producer) for producer in sorted(self.known(part).producers)))
                for producer in sorted(self.known(part).producers):
                    self.send(self.again(part, producer))
                    self.send(self.fenced(part, producer))
                self.send(self.records(part, 1), self.batch(part))
        if USED not in self.expected.streams:
            self.create(USED, StreamSettings())
        self.revoke(self.add_token(DEFAULT_TENANT))
        self.trim()
        # Last: nothing that comes after it makes it durable.
        self.send(self.batch(Part(USED)))
        self.commit(USED, "again", {0: 1})
