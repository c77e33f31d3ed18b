"""The stream machine: turns append commands into batches, and knows which of them were there before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flowmesh.base.errors import FlowMeshError, OutOfOrderSequence
from flowmesh.format import columns
from flowmesh.format.batch import NO_PRODUCER, Batch, BatchHeader
from flowmesh.format.block import OVERHEAD
from flowmesh.format.columns import Header
from flowmesh.streams.producers import Producers, SentBatch

STATE_VERSION = 1


class AppendBatch(NamedTuple):
    """A batch that the client encoded, already checked."""

    batch: Batch

    @property
    def size(self) -> int:
        return self.batch.size


class AppendRecord(NamedTuple):
    """One record. All that wait in one round become one batch."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    time_ns: int | None = None

    @property
    def size(self) -> int:
        return OVERHEAD + len(self.value or b"") + len(self.key or b"")


AppendCommand = AppendBatch | AppendRecord


class Placed(NamedTuple):
    """Where a command's records will be: in which of the decided batches, and from which record of it on."""

    batch: int
    first: int
    record_count: int
    repeated: bool = False
    """Another command of this round brought the very same batch."""


class Decision(NamedTuple):
    batches: list[Batch]
    outcomes: list[Placed | SentBatch | FlowMeshError]
    """One for each command: placed in a batch, found to be a repetition, or refused."""


class StreamMachine:
    """The fold of one partition. `decide` changes nothing; `apply` is told what was written."""

    state_version = STATE_VERSION

    def __init__(self) -> None:
        self.producers = Producers()

    def decide(self, commands: Sequence[AppendCommand], now_ns: int) -> Decision:
        batches: list[Batch] = []
        outcomes: list[Placed | SentBatch | FlowMeshError] = []
        run: list[AppendRecord] = []
        pending: dict[int, list[BatchHeader]] = {}
        for command in commands:
            if isinstance(command, AppendRecord):
                outcomes.append(Placed(len(batches), len(run), 1))
                run.append(command)
                continue
            if run:
                batches.append(_merged(run, now_ns))
                run = []
            outcomes.append(self._place(command.batch, batches, pending))
        if run:
            batches.append(_merged(run, now_ns))
        return Decision(batches, outcomes)

    def _place(
        self, batch: Batch, batches: list[Batch], pending: dict[int, list[BatchHeader]]
    ) -> Placed | SentBatch | FlowMeshError:
        header = batch.header
        if header.producer_id != NO_PRODUCER:
            earlier = pending.setdefault(header.producer_id, [])
            try:
                sent = _judge_with(self.producers, earlier, header)
            except FlowMeshError as error:
                return error
            if isinstance(sent, SentBatch):
                return sent
            if sent is not None:
                return Placed(sent, 0, header.count, repeated=True)
            earlier.append(header._replace(base_offset=len(batches)))
        batches.append(batch)
        return Placed(len(batches) - 1, 0, header.count)

    def apply(self, header: BatchHeader, base_offset: int) -> None:
        if header.producer_id != NO_PRODUCER:
            self.producers.apply(header, base_offset)

    def snapshot(self) -> bytes:
        return self.producers.snapshot()

    def restore(self, state: bytes | memoryview) -> None:
        self.producers.restore(state)


def _judge_with(producers: Producers, earlier: list[BatchHeader], header: BatchHeader) -> SentBatch | int | None:
    """Judges a batch as if the earlier ones of the same round had been applied. An int is the batch it repeats."""
    sent = producers.repeated(header)
    if sent is not None or not earlier:
        return sent or producers.judge(header)
    for before in earlier:
        same = (before.producer_epoch, before.first_sequence, before.count)
        if same == (header.producer_epoch, header.first_sequence, header.count):
            return before.base_offset
    last = earlier[-1]
    if header.producer_epoch > last.producer_epoch:
        return None
    if (header.producer_epoch, header.first_sequence) == (last.producer_epoch, last.first_sequence + last.count):
        return None
    overlay = Producers()
    for before in earlier:
        overlay.apply(before, before.base_offset)
    try:
        return overlay.judge(header)
    except OutOfOrderSequence as error:
        # In the overlay batches have places in this round, and no offsets yet.
        state = producers.find(header.producer_id)
        known = state is not None and state.epoch == header.producer_epoch
        error.since_offset = state.first_offset if state is not None and known else None
        raise


def _merged(run: Sequence[AppendRecord], now_ns: int) -> Batch:
    """Single records as one batch. Columns that nobody uses are left out."""
    values, keys, headers, times = zip(*run, strict=True)
    return columns.encode(
        values,
        keys=keys if any(key is not None for key in keys) else None,
        headers=headers if any(headers) else None,
        times_ns=_filled(times, now_ns),
    )


def _filled(times: Sequence[int | None], now_ns: int) -> list[int] | None:
    """None when no record brought a time: the log then stamps them all alike."""
    if all(time is None for time in times):
        return None
    return [now_ns if time is None else time for time in times]
