"""The writer thread: owns every log that is appended to, gathers what waits, and commits it in rounds."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeVar, cast

from flowmesh.base.durability import Policy
from flowmesh.base.errors import Closed, StorageFailed
from flowmesh.base.limits import (
    COMMIT_BYTES_MAX,
    HALVED_BYTES_MIN,
    PREPARE_BYTES_MAX,
    PREPARE_BYTES_MIN,
    SEALED_BYTES_PER_NS,
    WRITER_QUEUE_BYTES_MAX,
)
from flowmesh.log.commit import (
    Committed,
    Completion,
    Done,
    Item,
    Result,
    Submission,
    commit,
    prepare,
    sync,
    sync_one_by_one,
)
from flowmesh.ports.clock import Clock

T = TypeVar("T")
logger = logging.getLogger("flowmesh.writer")
_SYNC_THREADS = 4


class _Call(NamedTuple):
    run: Callable[[], None]


def deliver_here(completions: Sequence[Completion]) -> None:
    """Calls back on the writer thread itself: right for callers that only set a future or an event."""
    for done, results in completions:
        try:
            done(results)
        except Exception:
            logger.exception("whoever waited for an append failed to take the answer; all others get theirs")


class WriterThread:
    """One thread for all logs of a node. While a write or an fsync is under way new appends gather; the next round
    takes them all, and what waits when an fsync begins is sealed beside it. `deliver` gets a round's answers in one
    piece, so that an event loop is woken once for all."""

    def __init__(self, clock: Clock, deliver: Callable[[Sequence[Completion]], None] = deliver_here) -> None:
        self._clock = clock
        self._deliver = deliver
        self._inbox: SimpleQueue[Submission | _Call | None] = SimpleQueue()
        self._room = threading.Condition()
        self._queued_bytes = 0
        self._closed = False
        self._due_ns: dict[int, tuple[int, Committed]] = {}
        self._ahead: deque[Submission | _Call | None] = deque()
        """What was taken from the inbox before its turn; it comes before all that is still there."""
        self._sync_ns = 0
        """How long the last sync took, with what was sealed beside it."""
        self._prepared = 0
        """How many submissions the next round has to take, because they are sealed already."""
        self._syncers = ThreadPoolExecutor(_SYNC_THREADS, thread_name_prefix="flowmesh-sync")
        self._thread = threading.Thread(target=self._run, name="flowmesh-writer", daemon=True)
        self._thread.start()

    @property
    def queued_bytes(self) -> int:
        return self._queued_bytes

    def submit(self, log: Committed, group: Sequence[Item], done: Done) -> None:
        """Holds the caller back while too much waits; an event loop looks at `queued_bytes` first."""
        submission = Submission(log, group, done)
        size = submission.size
        with self._room:
            while self._queued_bytes and self._queued_bytes + size > WRITER_QUEUE_BYTES_MAX and not self._closed:
                self._room.wait()
            if self._closed:
                raise Closed("the writer is closed; nothing was appended.")
            self._queued_bytes += size
            self._inbox.put(submission)

    def append(self, log: Committed, group: Sequence[Item]) -> Future[Sequence[Result]]:
        """`submit` for callers that wait on a future. Single batches that failed are errors among its results."""
        future: Future[Sequence[Result]] = Future()

        def done(results: Sequence[Result]) -> None:
            # Whoever gave up waiting must not stop the thread that all others wait for.
            if future.set_running_or_notify_cancel():
                future.set_result(results)

        self.submit(log, group, done)
        return future

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Runs something on the thread that owns the logs: a trim, a roll, a close."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 (it belongs to whoever waits for the future)
                future.set_exception(error)

        with self._room:
            if self._closed:
                raise Closed("the writer is closed.")
            self._inbox.put(_Call(run))
        return future

    def close(self) -> None:
        """Finishes what waits, syncs what is due, and ends the thread. The logs stay with their owner, to be closed."""
        with self._room:
            if not self._closed:
                self._closed = True
                self._inbox.put(None)
                self._room.notify_all()
        self._thread.join()
        self._syncers.shutdown()

    # --- on the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        running = True
        while running:
            waiting, call, running = self._gather()
            if waiting:
                self._deliver(self._commit(waiting))
            if call is not None:
                call.run()
            self._sync_due(everything=not running)

    def _gather(self) -> tuple[list[Submission], _Call | None, bool]:
        """Everything that waits, up to one commit's size; of what takes longer to seal than to sync the first half, so
        that the sealing of the other one hides behind a sync. Or else a call: it ends the round before it and stays in
        front of all that came later, so that nothing overtakes it, and nothing behind it is prepared before it."""
        waiting: list[Submission] = []
        size = 0
        item = self._next(block=True)
        while isinstance(item, Submission):
            waiting.append(item)
            size += item.size
            item = self._next(block=False) if size < COMMIT_BYTES_MAX else _NOTHING
        if not waiting:
            return [], item if isinstance(item, _Call) else None, item is not None
        if item is not _NOTHING:
            self._ahead.appendleft(cast(_Call | None, item))
        least, self._prepared = self._prepared, 0
        if size >= max(HALVED_BYTES_MIN, int(self._sync_ns * SEALED_BYTES_PER_NS)):
            later = _second_half(waiting, size, least)
            self._ahead.extendleft(reversed(later))
            del waiting[len(waiting) - len(later) :]
        return waiting, None, True

    def _next(self, *, block: bool) -> Submission | _Call | object | None:
        if self._ahead:
            return self._ahead.popleft()
        try:
            return self._inbox.get(block, self._patience() if block else None)
        except Empty:
            return _NOTHING

    def _patience(self) -> float | None:
        """How long the thread may sleep before an interval log has to be synced."""
        if not self._due_ns:
            return None
        first = min(due for due, _ in self._due_ns.values())
        return max(first - self._clock.monotonic_ns(), 0) / 1e9

    def _commit(self, waiting: list[Submission]) -> list[Completion]:
        completions = self._round(waiting)
        with self._room:
            self._queued_bytes -= sum(item.size for item in waiting)
            self._room.notify_all()
        for log in {id(item.log): item.log for item in waiting}.values():
            durability = log.options.durability
            if durability.policy is Policy.INTERVAL and log.dirty:
                due = self._clock.monotonic_ns() + durability.interval_ms * 1_000_000
                self._due_ns.setdefault(id(log), (due, log))
        return completions

    def _round(self, waiting: list[Submission]) -> list[Completion]:
        """A commit, and a net below it: what nobody foresaw fails the logs of this round, and never this thread."""
        try:
            return commit(waiting, self._sync_files)
        except Exception as error:
            logger.exception("a commit failed in an unforeseen way; its logs take no more appends")
            for item in waiting:
                item.log.poison(f"{type(error).__name__} in a commit")
            return [Completion(item.done, [item.log.failure] * len(item.group)) for item in waiting]

    def _sync_due(self, *, everything: bool) -> None:
        now = self._clock.monotonic_ns()
        due = [key for key, (at, _) in self._due_ns.items() if everything or at <= now]
        sync([self._due_ns.pop(key)[1] for key in due], self._sync_files)

    def _sync_files(self, logs: Sequence[Committed]) -> None:
        """Several logs are synced side by side, and the next round is prepared beside them if enough waits for it; one
        alone is synced without a detour through another thread."""
        if not logs:
            return
        began = self._clock.monotonic_ns()
        waiting = self._look_ahead() if self._ahead or not self._inbox.empty() else []
        if len(logs) < 2 and not waiting:
            sync_one_by_one(logs)
        else:
            self._sync_side_by_side(logs, waiting)
        self._sync_ns = self._clock.monotonic_ns() - began

    def _sync_side_by_side(self, logs: Sequence[Committed], waiting: Sequence[Submission]) -> None:
        futures = [self._syncers.submit(log.sync_file) for log in logs]
        try:
            prepare(waiting)
        except Exception:
            logger.exception("what comes next could not be prepared; it is tried again when its turn has come")
        for future in futures:
            try:
                future.result()
            except StorageFailed:
                continue

    def _look_ahead(self) -> list[Submission]:
        """What the next round will begin with, if that is worth the way to another thread and back."""
        waiting, size = list[Submission](), 0
        for item in self._taken():
            if not isinstance(item, Submission):
                break
            waiting.append(item)
            size += item.size
            if size >= PREPARE_BYTES_MAX:
                break
        if size < PREPARE_BYTES_MIN:
            return []
        self._prepared = len(waiting)
        return waiting

    def _taken(self) -> Iterator[Submission | _Call | None]:
        """What comes next, which stays next: first what was taken before, then what is in the inbox."""
        yield from self._ahead
        with suppress(Empty):
            while True:
                self._ahead.append(self._inbox.get_nowait())
                yield self._ahead[-1]


def _second_half(waiting: list[Submission], size: int, least: int) -> list[Submission]:
    """What begins behind the middle, and is not prepared already."""
    before = 0
    for row, item in enumerate(waiting):
        if 2 * before >= size and row >= least:
            return waiting[row:]
        before += item.size
    return []


_NOTHING = object()
