"""The writer of the simulated world: the host's rounds, run one at a time when the simulation says so."""

from __future__ import annotations

from collections.abc import Sequence

from flowmesh.log.commit import Committed, Done, Item, Submission, SyncFiles, commit, prepare, sync, sync_one_by_one


class SimWriter:
    def __init__(self, sync_files: SyncFiles = sync_one_by_one) -> None:
        """`sync_files` is called between the writes and the answers: the place to look at what is not durable yet."""
        self._sync_files = sync_files
        self._waiting: list[Submission] = []
        self._logs: dict[int, Committed] = {}

    def submit(self, log: Committed, group: Sequence[Item], done: Done) -> None:
        self._waiting.append(Submission(log, group, done))
        self._logs[id(log)] = log

    def step(self, count: int | None = None) -> int:
        """One commit of what waits, or of the first so many submissions; returns how many it took. As many again are
        prepared beside its sync: here before it, for if it fails they must not count."""
        waiting, self._waiting = self._waiting[:count], self._waiting[count:] if count is not None else []

        def sync_files(logs: Sequence[Committed]) -> None:
            prepare(self._waiting[:count])
            self._sync_files(logs)

        for done, results in commit(waiting, sync_files):
            done(results)
        return len(waiting)

    def step_apart(self) -> None:
        """All that waits, in commits of one and of two submissions in turn: what was prepared is sometimes the
        beginning of what comes, and sometimes more than that."""
        turn = 0
        while self.step(1 + turn % 2):
            turn += 1

    def tick(self) -> None:
        """The moment at which interval logs are synced."""
        sync(list(self._logs.values()), self._sync_files)
