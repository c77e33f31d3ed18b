"""The writer of the simulated world: the host's rounds, run one at a time when the simulation says so."""

from __future__ import annotations

from collections.abc import Sequence

from flowmesh.log.commit import Committed, Done, Item, Submission, SyncFiles, commit, sync, sync_one_by_one


class SimWriter:
    def __init__(self, sync_files: SyncFiles = sync_one_by_one) -> None:
        """`sync_files` is called between the writes and the answers: the place to look at what is not durable yet."""
        self._sync_files = sync_files
        self._waiting: list[Submission] = []
        self._logs: dict[int, Committed] = {}

    def submit(self, log: Committed, group: Sequence[Item], done: Done) -> None:
        self._waiting.append(Submission(log, group, done))
        self._logs[id(log)] = log

    def step(self) -> int:
        """One commit of all that waits; returns how many submissions it took."""
        waiting, self._waiting = self._waiting, []
        for done, results in commit(waiting, self._sync_files):
            done(results)
        return len(waiting)

    def tick(self) -> None:
        """The moment at which interval logs are synced."""
        sync(list(self._logs.values()), self._sync_files)
