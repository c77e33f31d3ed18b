"""Idempotent producers: what each one sent last, so that a batch that comes twice is stored once."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from flowmesh.base.errors import OutOfOrderSequence, ProducerFenced
from flowmesh.format.batch import BatchHeader

REMEMBERED_BATCHES = 5
"""How many of a producer's batches may come again and still be told where they went."""
PRODUCERS_MAX = 10_000
"""For each partition, and apart for those that are in their first epoch and for those that count epochs: the one of
its kind that was silent longest is forgotten first. Who counts epochs comes back under its name (a Spark query after a
crash); thousands that come once and never again must not push it out."""


class SentBatch(NamedTuple):
    first_sequence: int
    record_count: int
    base_offset: int


class ProducerState(msgspec.Struct, array_like=True):
    epoch: int
    next_sequence: int
    recent: list[SentBatch]
    first_offset: int = 0
    """Where its first batch of this epoch lies; 0 is a lower bound, in snapshots that were made without it."""


class Producers:
    """A fold over batch headers. Insertion order is order of last use, so forgetting is deterministic."""

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self._returning: dict[int, ProducerState] = {}
        """Those that have an epoch above 0."""

    def __len__(self) -> int:
        return len(self._states) + len(self._returning)

    def find(self, producer_id: int) -> ProducerState | None:
        return self._returning.get(producer_id) or self._states.get(producer_id)

    def repeated(self, header: BatchHeader) -> SentBatch | None:
        """Where this very batch went, if it is one of the last few of its producer."""
        state = self.find(header.producer_id)
        if state is None or header.producer_epoch != state.epoch:
            return None
        wanted = (header.first_sequence, header.count)
        return next((sent for sent in state.recent if (sent.first_sequence, sent.record_count) == wanted), None)

    def judge(self, header: BatchHeader) -> SentBatch | None:
        """None when the batch is new and in order; where it went when it is a repetition; an error otherwise.

        A producer that is not known here (new, or forgotten) may begin with any sequence.
        """
        state = self.find(header.producer_id)
        if state is None or header.producer_epoch > state.epoch:
            return None
        if header.producer_epoch < state.epoch:
            raise ProducerFenced(
                f"producer {header.producer_id} has epoch {state.epoch}; this batch has {header.producer_epoch}.",
                field="producer_epoch",
                hint="Another producer took over this id. Start a new one with an id of its own.",
            )
        if header.first_sequence == state.next_sequence:
            return None
        sent = self.repeated(header)
        if sent is not None:
            return sent
        raise OutOfOrderSequence(
            f"producer {header.producer_id} sent sequence {header.first_sequence}; {state.next_sequence} comes next.",
            field="first_sequence",
            hint="Send batches in order, and repeat only the last few.",
            next_sequence=state.next_sequence,
            since_offset=state.first_offset,
        )

    def apply(self, header: BatchHeader, base_offset: int) -> None:
        state = self._states.pop(header.producer_id, None) or self._returning.pop(header.producer_id, None)
        if state is None or header.producer_epoch > state.epoch:
            state = ProducerState(header.producer_epoch, 0, [], base_offset)
        state.next_sequence = header.first_sequence + header.count
        newest = SentBatch(header.first_sequence, header.count, base_offset)
        state.recent = [*state.recent[1 - REMEMBERED_BATCHES :], newest]
        kind = self._returning if state.epoch else self._states
        kind[header.producer_id] = state
        while len(kind) > PRODUCERS_MAX:
            del kind[next(iter(kind))]

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode([*self._states.items(), *self._returning.items()])

    def restore(self, state: bytes | memoryview) -> None:
        found = msgspec.msgpack.decode(state, type=list[tuple[int, ProducerState]])
        self._states = {producer: known for producer, known in found if not known.epoch}
        self._returning = {producer: known for producer, known in found if known.epoch}
