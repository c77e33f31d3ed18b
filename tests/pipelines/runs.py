"""Runs pipelines in the session of the tests as the command does, keeps what they say, and looks at what they wrote."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from flowmesh.base.errors import FlowMeshError
from flowmesh.client import connect_blocking
from flowmesh.format.columns import Record
from flowmesh.operations.messages import GroupDescription
from flowmesh.pipelines.python_file import run_python
from flowmesh.pipelines.registry import PipelineRun, QueryRun, Registry, State, new_run
from flowmesh.pipelines.running import Run, keep
from flowmesh.pipelines.spec_file import parse
from flowmesh.pipelines.target import NodeTarget
from flowmesh.pipelines.yaml_run import placed, run_yaml
from flowmesh.testing import NodeProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 90.0
Row = dict[str, Any]


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


class Heard:
    """An audience that remembers."""

    def __init__(self) -> None:
        self.starts = 0
        self.changes = 0
        self.tables: dict[str, list[Row]] = {}
        self.more: set[str] = set()

    def started(self, run: PipelineRun) -> None:
        self.starts += 1

    def progress(self, run: PipelineRun, changed: Sequence[QueryRun]) -> None:
        self.changes += len(changed)

    def shown(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]], more: bool) -> None:
        self.tables.setdefault(name, []).extend(dict(zip(columns, row, strict=True)) for row in rows)
        if more:
            self.more.add(name)

    def said(self, line: str) -> None:
        raise AssertionError(f"no other program runs here, and yet: {line}")


class Going:
    """A run on a thread of its own, or one that has ended."""

    def __init__(self, run: PipelineRun) -> None:
        self.run = run
        self.heard = Heard()
        self.stop = threading.Event()
        self.error: FlowMeshError | None = None
        self._thread: threading.Thread | None = None

    def begin(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except FlowMeshError as error:
                self.error = error

        self._thread = threading.Thread(target=guarded)
        self._thread.start()

    def wait(self) -> PipelineRun:
        assert self._thread is not None
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "it does not end"
        return self.run

    def until(self, true: Callable[[], object]) -> None:
        """Comes about while the run goes on."""
        until(lambda: true() or self.run.state != "running")
        assert self.run.state == "running", self.run.error

    def query(self, name: str) -> QueryRun:
        return next((each for each in self.run.queries if each.name == name), QueryRun(name))


class Pipelines:
    """Pipelines of one test: their files lie in `folder`, and so do their states and checkpoints."""

    def __init__(self, spark: SparkSession, node: NodeProcess, folder: Path) -> None:
        self.spark = spark
        self.node = node
        self.folder = folder
        self.registry = Registry(folder / "state")
        self.target = NodeTarget(node.url, node.token)

    # --- running ------------------------------------------------------------------------------------------------

    def once(self, pipeline: str | Path, **fields: Any) -> Going:
        """The text of a YAML file, or the path of a Python file, run to its end."""
        going = self._going(pipeline, once=True)
        self._work(going, pipeline, fields, once=True)
        return going

    def failing(self, pipeline: str | Path, **fields: Any) -> tuple[FlowMeshError, Going]:
        going = self._going(pipeline, once=True)
        try:
            self._work(going, pipeline, fields, once=True)
        except FlowMeshError as error:
            return error, going
        raise AssertionError("it did not fail")

    @contextmanager
    def continuous(self, pipeline: str | Path, **fields: Any) -> Iterator[Going]:
        """Is told to stop, and has ended with all its queries, when the block is left."""
        going, before = self._going(pipeline, once=False), self._queries()
        going.begin(lambda: self._work(going, pipeline, fields, once=False))
        try:
            yield going
        finally:
            going.stop.set()
            going.wait()
        assert self._queries() == before, "a query runs on"

    def _queries(self) -> int:
        """How many run in the process, in whichever session."""
        shared: Any = self.spark._jsparkSession
        return int(shared.sharedState().activeStreamingQueries().size())

    def _going(self, pipeline: str | Path, *, once: bool) -> Going:
        file = pipeline if isinstance(pipeline, Path) else self.folder / "pipeline.yaml"
        name = file.stem if isinstance(pipeline, Path) else yaml.safe_load(pipeline)["name"]
        return Going(new_run(name, file, once=once, now_ns=time.time_ns()))

    def _work(self, going: Going, pipeline: str | Path, fields: Mapping[str, Any], *, once: bool) -> None:
        own = going.run
        place = str(self.registry.checkpoint(own.name))
        with self.registry.running(own, time.time_ns()) as file:
            run = Run(file, self.target, place, once, going.heard, going.stop)

            def work() -> State:
                if isinstance(pipeline, Path):
                    return run_python(self.spark, pipeline, run)
                spec = placed(parse(yaml.safe_load(pipeline) | fields, {}), self.folder)
                return run_yaml(self.spark, spec, run)

            keep(file, work)

    def remembered(self, name: str) -> PipelineRun:
        return self.registry.runs(name)[0]

    # --- streams ------------------------------------------------------------------------------------------------

    def create(self, *names: str, partitions: int = 1) -> None:
        with connect_blocking(self.node.url, token=self.node.token) as client:
            for name in names:
                client.create_stream(name, partitions=partitions)

    def send(self, stream: str, *rows: Row | bytes, partition: int = 0, **columns: Any) -> None:
        send(self.node, stream, *rows, partition=partition, **columns)

    def records(self, stream: str) -> list[Record]:
        return records_of(self.node, stream)

    def rows(self, stream: str) -> list[Row]:
        return values_of(self.node, stream)

    def group(self, stream: str, name: str) -> GroupDescription:
        with connect_blocking(self.node.url, token=self.node.token) as client:
            return client.stream(stream).group(name)

    # --- files --------------------------------------------------------------------------------------------------

    def forget_last_batch(self, pipeline: str, query: str) -> None:
        """As if the process had been killed after the batch was written and before Spark noted that it was."""
        place = self.registry.checkpoint(pipeline) / query / "commits"
        last = max((file for file in place.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
        last.unlink()
        (place / f".{last.name}.crc").unlink(missing_ok=True)


def send(
    node: NodeProcess, stream: str, *rows: Row | bytes, partition: int = 0, create: bool = False, **columns: Any
) -> None:
    """One block. Rows become JSON; bytes stay what they are."""
    values = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    with connect_blocking(node.url, token=node.token) as client:
        if create:
            client.create_stream(stream)
        client.stream(stream).append_many(values, partition=partition, **columns)


def records_of(node: NodeProcess, stream: str) -> list[Record]:
    with (
        connect_blocking(node.url, token=node.token) as client,
        client.stream(stream).consumer("earliest", until_end=True) as consumer,
    ):
        return list(consumer)


def values_of(node: NodeProcess, stream: str) -> list[Row]:
    """JSON objects of a stream, in an order of their own."""
    return ordered(json.loads(record.value or b"null") for record in records_of(node, stream))


def ordered(rows: Any) -> list[Row]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))


def files_of(directory: Path) -> list[Row]:
    """As a reader sees a directory of Parquet who has never heard of Spark."""
    import pyarrow.dataset

    return ordered(pyarrow.dataset.dataset(directory, format="parquet").to_table().to_pylist())
