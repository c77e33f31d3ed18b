"""A pipeline that is a Python file: one with a function `pipeline(spark, run)`, or a script that does it all itself."""

from __future__ import annotations

import ast
import importlib.util
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowmesh.base.errors import BadRequest, FlowMeshError, NotFound
from flowmesh.base.names import checked_name
from flowmesh.pipelines.checks import EARLIEST
from flowmesh.pipelines.failures import PipelineFailed, reason_in_file
from flowmesh.pipelines.registry import State
from flowmesh.pipelines.running import Run, Watcher

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FUNCTION = "pipeline"
_STARTING = ("startingoffsets", "startingtimestamp")


def has_function(file: Path) -> bool:
    """Whether the file has the function at its top; nothing of it is run."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}.", field="file") from None
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise BadRequest(f"{file} is not Python{line}: {error}.", field="file") from None
    return any(isinstance(each, ast.FunctionDef) and each.name == FUNCTION for each in tree.body)


def run_python(spark: SparkSession, file: Path, run: Run) -> State:
    watcher = Watcher(spark, run)

    def work() -> None:
        run.audience.started(run.file.run)
        try:
            if has_function(file):
                _function(file)(spark, PythonRun(spark, run, watcher))
            else:
                runpy.run_path(str(file), run_name="__main__")
        except Exception as error:
            if run.stop.is_set():
                return  # what it was waiting for was stopped
            raise PipelineFailed(f"{file.name}: {reason_in_file(error, file)}") from error
        except SystemExit as ended:
            if ended.code not in (None, 0):
                raise PipelineFailed(f"{file.name}: it exited with {ended.code}") from None

    return watcher.follow(work)


class PythonRun:
    """What `pipeline(spark, run)` is given: the node, the checkpoints, and whether it runs once."""

    def __init__(self, spark: SparkSession, run: Run, watcher: Watcher) -> None:
        self._spark = spark
        self._run = run
        self._watcher = watcher

    @property
    def name(self) -> str:
        return self._run.file.run.name

    @property
    def once(self) -> bool:
        """Whether to end with what is there now."""
        return self._run.once

    def source(self, stream: str, **options: object) -> DataFrame:
        """A stream as rows that are followed, from its beginning unless options say otherwise."""
        found = self._node_options(stream) | _texts(options)
        if not {name.lower() for name in found} & set(_STARTING):
            found["startingOffsets"] = EARLIEST
        return self._spark.readStream.format("flowmesh").options(**found).load()

    def table(self, stream: str, **options: object) -> DataFrame:
        """A stream as rows that are there now."""
        found = self._node_options(stream) | _texts(options)
        return self._spark.read.format("flowmesh").options(**found).load()

    def sink(
        self, frame: DataFrame, stream: str, *, name: str | None = None, mode: str = "append", **options: object
    ) -> StreamingQuery:
        """Appends rows to a stream, each exactly once."""
        writer = frame.writeStream.format("flowmesh").outputMode(mode)
        writer = writer.options(**(self._node_options(stream) | _texts(options)))
        return self.start(writer, name or stream.rpartition("/")[2])

    def start(self, writer: Any, name: str) -> StreamingQuery:
        """Starts any query of Spark's under a name, with a checkpoint of its own, once or for good."""
        writer = writer.option("checkpointLocation", self.checkpoint(name))
        if self.once:
            writer = writer.trigger(availableNow=True)
        query: StreamingQuery = writer.start()
        self._watcher.add(query, name)
        return query

    def checkpoint(self, name: str) -> str:
        return f"{self._run.checkpoint}/{checked_name(name, 'name')}"

    def _node_options(self, stream: str) -> dict[str, str]:
        if self._run.target is None:
            raise BadRequest("a stream takes a node.", hint="Log in to one with 'flowmesh login', or give --url.")
        return self._run.target.options(stream)


def _texts(options: dict[str, object]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def _function(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"flowmesh_pipeline_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise FlowMeshError(f"{file} cannot be imported.", field="file", hint="Its name has to end with .py.")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where dataclasses look for it
    spec.loader.exec_module(module)
    return getattr(module, FUNCTION)
