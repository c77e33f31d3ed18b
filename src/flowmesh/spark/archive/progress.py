"""How far a Spark job is, told to whoever wants to know, by Spark's own count of tasks that are done."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_EVERY_S = 0.2


class Progress(Protocol):
    def expect(self, size_bytes: int) -> None:
        """So much more there is to do."""
        ...

    def advance(self, size_bytes: int) -> None:
        """So much more of it is done."""
        ...


class _Untold:
    """For callers that want no progress."""

    def expect(self, size_bytes: int) -> None: ...

    def advance(self, size_bytes: int) -> None: ...


untold: Progress = _Untold()


@contextmanager
def watched(spark: SparkSession, description: str, progress: Progress, sizes: Sequence[int]) -> Iterator[None]:
    """Around one job whose tasks are of these sizes. How far it is, is an estimate until it has ended."""
    context = spark.sparkContext
    group, total = f"flowmesh-{uuid.uuid4().hex}", sum(sizes)
    context.setJobGroup(group, description, interruptOnCancel=True)
    told, done = [0], threading.Event()

    def tell(size: int) -> None:
        if size > told[0]:
            progress.advance(size - told[0])
            told[0] = size

    def watch() -> None:
        tracker = context.statusTracker()
        while not done.wait(_LOOK_EVERY_S):
            ended = 0
            for job in tracker.getJobIdsForGroup(group):
                found = tracker.getJobInfo(job)
                for stage in found.stageIds if found is not None else ():
                    about = tracker.getStageInfo(stage)
                    ended += about.numCompletedTasks if about is not None else 0
            tell(total * min(ended, len(sizes)) // max(len(sizes), 1))

    watcher = None
    if progress is not untold:
        watcher = threading.Thread(target=watch, name="flowmesh-progress", daemon=True)
        watcher.start()
    try:
        yield
    finally:
        done.set()
        if watcher is not None:
            watcher.join()
        context.setJobGroup("", "")
    tell(total)
