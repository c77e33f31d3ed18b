"""Group commit: one round takes everything that waits, writes it log by log, syncs once for each log, and answers.

While a round's sync is under way the next one may be prepared: sealed, but not written.
The same rounds run under the host's writer thread and in the simulator; only who calls them, and how several logs are
synced at once, differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from flowmesh.base.durability import Policy
from flowmesh.base.errors import FlowMeshError, StorageFailed
from flowmesh.base.limits import PREPARE_BYTES_MAX
from flowmesh.format.block import OVERHEAD
from flowmesh.log.options import LogOptions

Result = Any
"""What `write` gives for one item: where it went, or the `FlowMeshError` that kept it out."""
Done = Callable[[Sequence[Result]], None]


class Committed(Protocol):
    """What a round can drive: an appender, whose items are batches, or a partition, whose items are commands."""

    @property
    def options(self) -> LogOptions: ...

    @property
    def dirty(self) -> bool: ...

    @property
    def failure(self) -> FlowMeshError | None: ...

    def write(self, group: Sequence[Any]) -> list[Result]: ...

    def prepare(self, group: Sequence[Any]) -> None:
        """Told, while a sync of this log is under way, what the next `write` will begin with. Changes nothing that is
        written or read: it may work ahead, or do nothing."""
        ...

    def sync_file(self) -> None: ...

    def complete_sync(self) -> None: ...

    def poison(self, reason: str) -> None: ...


class Item(Protocol):
    @property
    def size(self) -> int: ...


SyncFiles = Callable[[Sequence[Committed]], None]


class Submission:
    """What somebody wants to be appended to one log."""

    __slots__ = ("done", "group", "log", "size")

    def __init__(self, log: Committed, group: Sequence[Item], done: Done) -> None:
        self.log = log
        self.group = group
        self.done = done
        self.size = sum([item.size for item in group]) + OVERHEAD * len(group)


class Completion(NamedTuple):
    done: Done
    results: Sequence[Result]


def sync_one_by_one(logs: Sequence[Committed]) -> None:
    """Runs the blocking half of each log's sync. A log that fails keeps its own failure; the others go on."""
    for log in logs:
        try:
            log.sync_file()
        except StorageFailed:
            continue


def commit(waiting: Sequence[Submission], sync_files: SyncFiles = sync_one_by_one) -> list[Completion]:
    """One round. What it returns may be acknowledged: the policy of each log has been satisfied."""
    by_log: dict[int, list[Submission]] = {}
    for submission in waiting:
        by_log.setdefault(id(submission.log), []).append(submission)
    completions: list[Completion] = []
    written: list[tuple[Committed, list[Submission], list[Result]]] = []
    for submissions in by_log.values():
        log = submissions[0].log
        if log.options.durability.policy is Policy.ALWAYS:
            completions += [Completion(item.done, _each_alone(log, item.group)) for item in submissions]
        else:
            written.append((log, submissions, log.write([item for waits in submissions for item in waits.group])))
    sync([log for log, _, _ in written if log.options.durability.acks_after_sync], sync_files)
    for log, submissions, results in written:
        failure = log.failure
        if failure is not None:
            results = [failure] * len(results)
        first = 0
        for item in submissions:
            completions.append(Completion(item.done, results[first : first + len(item.group)]))
            first += len(item.group)
    return completions


def prepare(waiting: Sequence[Submission], bytes_max: int = PREPARE_BYTES_MAX) -> None:
    """Tells logs what is next for them, in the order in which the next round will write it."""
    by_log: dict[int, tuple[Committed, list[Item]]] = {}
    for submission in waiting:
        bytes_max -= submission.size
        if bytes_max < 0:
            break
        if submission.log.options.durability.policy is not Policy.ALWAYS:
            by_log.setdefault(id(submission.log), (submission.log, []))[1].extend(submission.group)
    for log, group in by_log.values():
        if log.failure is None:
            log.prepare(group)


def sync(logs: Sequence[Committed], sync_files: SyncFiles) -> None:
    """Makes what was written to these logs durable and visible. Failures stay with their logs."""
    dirty = [log for log in logs if log.dirty and log.failure is None]
    sync_files(dirty)
    for log in dirty:
        if log.failure is None:
            try:
                log.complete_sync()
            except StorageFailed:
                continue


def _each_alone(log: Committed, group: Sequence[Item]) -> list[Result]:
    """Policy `always`: no append shares its fsync."""
    results: list[Result] = []
    for item in group:
        (result,) = log.write([item])
        sync([log], sync_one_by_one)
        results.append(log.failure or result)
    return results
