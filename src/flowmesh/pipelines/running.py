"""A run from its first query to its end: everything is started, watched, written down, and stopped in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from flowmesh.base.times import to_text
from flowmesh.pipelines.failures import PipelineFailed, reason_of
from flowmesh.pipelines.registry import PipelineRun, QueryRun, RunFile, State
from flowmesh.pipelines.target import NodeTarget
from flowmesh.pipelines.watching import QueryWatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.25
WRITE_S = 1.0
"""How often the file of the run is written at most, while things go on."""
STOP_S = 30.0
"""How long the code of a pipeline may take to end after its queries were stopped."""


class Audience(Protocol):
    """Whoever looks on. It is called from several threads."""

    def started(self, run: PipelineRun) -> None: ...

    def progress(self, run: PipelineRun, changed: Sequence[QueryRun]) -> None: ...

    def shown(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]], more: bool) -> None:
        """Rows of a console sink."""
        ...

    def said(self, line: str) -> None:
        """What another program says."""
        ...


class Run(NamedTuple):
    """What every kind of pipeline is run with."""

    file: RunFile
    target: NodeTarget | None
    checkpoint: str
    once: bool
    audience: Audience
    stop: threading.Event


def keep(file: RunFile, work: Callable[[], State]) -> None:
    """Does the work of a run; however it ends, the file says so."""
    run = file.run
    try:
        run.state = work()
    except BaseException as error:
        run.state = "failed" if isinstance(error, Exception) else "stopped"
        run.error = reason_of(error) if isinstance(error, Exception) else None
        raise
    finally:
        run.ended = to_text(time.time_ns())
        file.write()


class Watcher:
    """Watches the queries of a session while code on another thread starts them, so that this one can end it all."""

    def __init__(self, spark: SparkSession, run: Run) -> None:
        self._spark = spark
        self._run = run
        self._watches: dict[str, QueryWatch] = {}
        self._lock = threading.Lock()
        self._error: BaseException | None = None

    def add(self, query: StreamingQuery, name: str | None = None) -> None:
        """What has no name is called by its id."""
        with self._lock:
            watch = self._watches.get(str(query.runId))
            if watch is None:
                watch = self._watches[str(query.runId)] = QueryWatch(query, QueryRun(query.name or str(query.id)))
                self._run.file.run.queries.append(watch.run)
            watch.run.name = name or watch.run.name

    def _all(self) -> list[QueryWatch]:
        with self._lock:
            return list(self._watches.values())

    def done(self, rows: QueryRun) -> None:
        """A batch that was written."""
        self._run.file.run.queries.append(rows)
        self._run.audience.progress(self._run.file.run, [rows])

    def follow(self, work: Callable[[], None]) -> State:
        """Until the work and all queries have ended, one of them failed, or the run is to stop."""
        thread = threading.Thread(target=self._do, args=[work], name="flowmesh-pipeline", daemon=True)
        thread.start()
        try:
            return self._follow(thread)
        finally:
            self._stop_all(thread)

    def _do(self, work: Callable[[], None]) -> None:
        try:
            _make_active(self._spark)
            work()
        except BaseException as error:  # noqa: BLE001 (it is raised again by the thread that waits for this one)
            self._error = error

    def _follow(self, thread: threading.Thread) -> State:
        run, written = self._run, 0.0
        while True:
            working = thread.is_alive()
            for query in self._spark.streams.active:
                self.add(query)
            active = any(each.query.isActive for each in self._all())
            changed = [each.run for each in self._all() if each.poll()]
            if changed:
                run.audience.progress(run.file.run, changed)
            if run.stop.is_set():
                return "stopped"
            self._require_sound()
            if not working and not active:
                return "finished"
            if changed and time.monotonic() - written >= WRITE_S:
                run.file.write()
                written = time.monotonic()
            run.stop.wait(POLL_S)

    def _require_sound(self) -> None:
        for each in self._all():
            error = each.query.exception()
            if error is not None:
                raise PipelineFailed(
                    f"query {each.run.name!r}: {reason_of(error)}",
                    hint="What it has written stands; run the pipeline again, and it goes on from there.",
                )
        if self._error is not None:
            raise self._error

    def _stop_all(self, thread: threading.Thread) -> None:
        """Also what is started meanwhile: the thread that starts things may be in the middle of it."""
        deadline = time.monotonic() + STOP_S
        while True:
            active: Any = [*self._spark.streams.active, *(each.query for each in self._all() if each.query.isActive)]
            for query in active:
                query.stop()
            if not thread.is_alive():
                break
            self._spark.sparkContext.cancelAllJobs()
            thread.join(POLL_S)
            if time.monotonic() > deadline:
                break
        for each in self._all():
            each.poll()


def _make_active(spark: Any) -> None:
    """On a thread of its own Java knows no session until it is told, and then finds no data source of Python's."""
    from pyspark.sql import SparkSession

    kind: Any = SparkSession
    kind._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
