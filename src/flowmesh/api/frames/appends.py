"""Appends of one connection: gathered for each partition over one read, submitted in one piece, answered in bulk.

Plain values (no key, no headers, no time) are encoded here, all of one read as one batch; anything else becomes single
records, which the partition merges with whatever waits in the same round.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

from flowmesh.api.frames import replies
from flowmesh.api.frames.context import WireContext, presentable
from flowmesh.api.frames.targets import APPEND, Target
from flowmesh.api.service import AppendResult
from flowmesh.base.buffers import Buffer
from flowmesh.base.durability import Policy
from flowmesh.base.errors import BadRequest, FlowMeshError, TooLarge
from flowmesh.base.limits import HEADER_NAME_BYTES_MAX, RECORD_BYTES_MAX
from flowmesh.format import columns
from flowmesh.format.batch import Batch
from flowmesh.format.columns import TIME_BOUND
from flowmesh.format.frame import Frame, FrameFlag, FrameRun
from flowmesh.node.partition import AppendReply, StreamPartition
from flowmesh.streams.machine import AppendBatch, AppendCommand, AppendRecord

_ENCODE_FROM = 16
"""So many plain values are worth a batch of their own; fewer are left to be merged with other connections'."""
_MERGED_BYTES_MAX = 4096
"""Larger records get a batch of their own, so that what one round merges stays far below a batch's limit."""
_MERGE = int(FrameFlag.MERGE)
_CODE = APPEND.code


class Waiter(NamedTuple):
    """Requests with ascending correlation ids, whose records follow each other in one command."""

    correlation: int
    records: int
    merge: bool
    is_batch: bool = False


class Outlet(Protocol):
    """Where answers go: the connection."""

    def send_soon(self, data: bytes) -> None: ...

    def settled(self, requests: int, size: int) -> None: ...


class _Gathering:
    """What one read brought for one partition."""

    __slots__ = ("commands", "durability", "number", "owners", "partition", "plain", "plain_owners", "requests", "size")

    def __init__(self, number: int, partition: StreamPartition) -> None:
        self.number = number
        self.partition = partition
        self.durability = str(partition.options.durability)
        self.commands: list[AppendCommand] = []
        self.owners: list[list[Waiter]] = []
        self.plain: list[bytes] = []
        self.plain_owners: list[Waiter] = []
        self.requests = 0
        self.size = 0

    def add_plain(self, values: Sequence[Buffer], correlation: int, merge: bool) -> None:
        self.plain += values  # type: ignore[arg-type]  # the encoder joins whatever holds bytes
        if self.plain_owners:
            last = self.plain_owners[-1]
            if last.merge and merge and last.correlation + last.records == correlation:
                self.plain_owners[-1] = last._replace(records=last.records + len(values))
                return
        self.plain_owners.append(Waiter(correlation, len(values), merge))

    def add(self, command: AppendCommand, waiter: Waiter) -> None:
        self.seal()
        self.commands.append(command)
        self.owners.append([waiter])

    def seal(self) -> None:
        """Makes commands of the plain values so far; what comes next comes after them."""
        plain, owners = self.plain, self.plain_owners
        if not plain:
            return
        alone = self.partition.options.durability.policy is Policy.ALWAYS
        if not alone and (len(plain) >= _ENCODE_FROM or sum(map(len, plain)) > _MERGED_BYTES_MAX):
            self.commands.append(AppendBatch(columns.encode(plain)))
            self.owners.append(owners)
        else:
            self.commands += map(AppendRecord, plain)
            for correlation, records, merge, _ in owners:
                self.owners += [[Waiter(number, 1, merge)] for number in range(correlation, correlation + records)]
        self.plain, self.plain_owners = [], []

    def everybody(self) -> list[list[Waiter]]:
        """All who wait, also those whose records could not be made into a command."""
        return [*self.owners, self.plain_owners] if self.plain_owners else self.owners


class AppendDesk:
    def __init__(self, context: WireContext, outlet: Outlet) -> None:
        self._context = context
        self._outlet = outlet
        self._gathered: dict[int, _Gathering] = {}

    def add_run(self, run: FrameRun, target: Target) -> None:
        """A run of plain values. Without a partition all of it goes to the one whose turn it is."""
        gathering = self._gathering(*target.choose())
        gathering.add_plain(run.bodies, run.correlation, bool(run.flags & _MERGE))
        gathering.requests += len(run.bodies)
        gathering.size += len(run.bodies) * (len(run.bodies[0]) + len(run.header))

    def add_record(self, frame: Frame, target: Target) -> None:
        body, merge = frame.body, bool(frame.flags & _MERGE)
        if len(body) > RECORD_BYTES_MAX:
            raise TooLarge(f"a record of {len(body)} bytes is over the limit of {RECORD_BYTES_MAX}.", field="value")
        if target.is_plain:
            gathering = self._gathering(*target.choose())
            gathering.add_plain((body,), frame.correlation, merge)
        else:
            command = _record(frame, target)
            gathering = self._gathering(*target.choose())
            gathering.add(command, Waiter(frame.correlation, 1, merge))
        gathering.requests += 1
        gathering.size += len(body) + len(frame.header)

    def add_batch(self, batch: Batch, frame: Frame, target: Target) -> None:
        """A batch that the client encoded and that was checked."""
        gathering = self._gathering(*target.choose())
        gathering.add(AppendBatch(batch), Waiter(frame.correlation, batch.header.count, merge=False, is_batch=True))
        gathering.requests += 1
        gathering.size += len(frame.body) + len(frame.header)

    def _gathering(self, number: int, partition: StreamPartition) -> _Gathering:
        found = self._gathered.get(id(partition))
        if found is None:
            found = self._gathered[id(partition)] = _Gathering(number, partition)
        return found

    def submit(self) -> None:
        """Hands over what was gathered: one submission for each partition."""
        gathered, self._gathered = self._gathered, {}
        for gathering in gathered.values():
            done = partial(self._answer, gathering, time.perf_counter())
            try:
                gathering.seal()
                self._context.service.submit(gathering.partition, gathering.commands, done)
            except Exception as error:  # noqa: BLE001 (whoever asked is told, and the log)
                done([presentable(error)] * len(gathering.everybody()))

    # --- answers ------------------------------------------------------------------------------------------------

    def _answer(self, gathering: _Gathering, since: float, results: Sequence[AppendResult]) -> None:
        outcome = "OK"
        runs: list[_Answered] = []
        for result, waiters in zip(results, gathering.everybody(), strict=True):
            if isinstance(result, FlowMeshError):
                outcome = result.code.value
            _spread(result, waiters, runs)
        send = self._outlet.send_soon
        for run in runs:
            send(_encoded(run, gathering.number, gathering.durability))
        self._outlet.settled(gathering.requests, gathering.size)
        self._context.observe(APPEND.name, since, outcome)


class _Answered(NamedTuple):
    """Requests whose answers can be told in one go."""

    waiter: Waiter
    base_offset: int
    repeated: bool
    error: FlowMeshError | None


def _spread(result: AppendResult, waiters: Sequence[Waiter], runs: list[_Answered]) -> None:
    """Each waiter's part of a command's result, joined to what came before where it goes on from there."""
    if not isinstance(result, AppendReply):
        runs += [_Answered(waiter, 0, False, result) for waiter in waiters]
        return
    base = result.base_offset
    for waiter in waiters:
        if runs and waiter.merge:
            last = runs[-1]
            before = last.waiter
            if (
                before.merge
                and last.error is None
                and before.correlation + before.records == waiter.correlation
                and last.base_offset + before.records == base
            ):
                runs[-1] = last._replace(waiter=before._replace(records=before.records + waiter.records))
                base += waiter.records
                continue
        runs.append(_Answered(waiter, base, result.repeated, None))
        base += waiter.records


def _encoded(run: _Answered, number: int, durability: str) -> bytes:
    (correlation, records, merge, is_batch), base, repeated, error = run
    if error is not None:
        return replies.errors(_CODE, correlation, 1 if is_batch else records, error)
    if is_batch:
        return replies.batch_append(_CODE, correlation, number, base, base + records, repeated, durability)
    make = replies.merged_appends if merge else replies.single_appends
    return make(_CODE, correlation, number, base, base + records, durability)


def _record(frame: Frame, target: Target) -> AppendCommand:
    """A record with more than a value. A large one is encoded alone: what one round merges has to stay small."""
    request = target.request
    if request.null and len(frame.body):
        raise BadRequest("a null record has no body.", field="null")
    if request.time_ns is not None and not -TIME_BOUND < request.time_ns < TIME_BOUND:
        raise BadRequest("the time is outside what nanoseconds since 1970 can hold.", field="time_ns")
    if any(len(name) > HEADER_NAME_BYTES_MAX for name, _ in request.headers):
        raise TooLarge(f"a header's name has at most {HEADER_NAME_BYTES_MAX} bytes.", field="headers")
    value = None if request.null else bytes(frame.body)
    if len(frame.body) + len(frame.header) <= _MERGED_BYTES_MAX:
        return AppendRecord(value, request.key, request.headers, request.time_ns)
    keys = None if request.key is None else [request.key]
    headers = [request.headers] if request.headers else None
    times = None if request.time_ns is None else [request.time_ns]
    return AppendBatch(columns.encode([value], keys=keys, headers=headers, times_ns=times))
