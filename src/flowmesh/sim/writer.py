"""The writer of the simulated world: the host's rounds, run one at a time when the simulation says so."""

from __future__ import annotations

from collections.abc import Sequence

from flowmesh.format.batch import Batch
from flowmesh.log.appender import Appender
from flowmesh.log.commit import Done, Submission, commit, sync, sync_one_by_one


class SimWriter:
    def __init__(self) -> None:
        self._waiting: list[Submission] = []
        self._logs: dict[int, Appender] = {}

    def submit(self, log: Appender, group: Sequence[Batch], done: Done) -> None:
        self._waiting.append(Submission(log, group, done))
        self._logs[id(log)] = log

    def step(self) -> int:
        """One commit of all that waits; returns how many submissions it took."""
        waiting, self._waiting = self._waiting, []
        for done, results in commit(waiting):
            done(results)
        return len(waiting)

    def tick(self) -> None:
        """The moment at which interval logs are synced."""
        sync(list(self._logs.values()), sync_one_by_one)
