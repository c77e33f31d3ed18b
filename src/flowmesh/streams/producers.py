"""Idempotent producers: what each one sent last, so that a batch that comes twice is stored once."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from flowmesh.base.errors import OutOfOrderSequence, ProducerFenced
from flowmesh.format.batch import BatchHeader

REMEMBERED_BATCHES = 5
"""How many of a producer's batches may come again and still be told where they went."""
PRODUCERS_MAX = 10_000
"""For each partition; the one that was silent longest is forgotten first."""


class SentBatch(NamedTuple):
    first_sequence: int
    record_count: int
    base_offset: int


class ProducerState(msgspec.Struct, array_like=True):
    epoch: int
    next_sequence: int
    recent: list[SentBatch]


class Producers:
    """A fold over batch headers. Insertion order is order of last use, so forgetting is deterministic."""

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def repeated(self, header: BatchHeader) -> SentBatch | None:
        """Where this very batch went, if it is one of the last few of its producer."""
        state = self._states.get(header.producer_id)
        if state is None or header.producer_epoch != state.epoch:
            return None
        wanted = (header.first_sequence, header.count)
        return next((sent for sent in state.recent if (sent.first_sequence, sent.record_count) == wanted), None)

    def judge(self, header: BatchHeader) -> SentBatch | None:
        """None when the batch is new and in order; where it went when it is a repetition; an error otherwise.

        A producer that is not known here (new, or forgotten) may begin with any sequence.
        """
        state = self._states.get(header.producer_id)
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
        )

    def apply(self, header: BatchHeader, base_offset: int) -> None:
        state = self._states.pop(header.producer_id, None)
        if state is None or header.producer_epoch > state.epoch:
            state = ProducerState(header.producer_epoch, 0, [])
        state.next_sequence = header.first_sequence + header.count
        newest = SentBatch(header.first_sequence, header.count, base_offset)
        state.recent = [*state.recent[1 - REMEMBERED_BATCHES :], newest]
        self._states[header.producer_id] = state
        while len(self._states) > PRODUCERS_MAX:
            del self._states[next(iter(self._states))]

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(list(self._states.items()))

    def restore(self, state: bytes | memoryview) -> None:
        self._states = dict(msgspec.msgpack.decode(state, type=list[tuple[int, ProducerState]]))
