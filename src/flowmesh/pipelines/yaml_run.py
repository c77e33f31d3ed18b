"""The run of a pipeline that is a YAML file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from flowmesh.base.errors import BadRequest
from flowmesh.pipelines.outputs import outputs, require_no_loop, written_streams
from flowmesh.pipelines.registry import QueryRun, State
from flowmesh.pipelines.running import Run, Watcher
from flowmesh.pipelines.spec import PipelineSpec, SinkSpec, SourceSpec
from flowmesh.pipelines.starting import start, write_once
from flowmesh.pipelines.target import require_streams
from flowmesh.pipelines.views import option_texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_NO_PLACES = ("none", "auto")


def uses_node(spec: PipelineSpec) -> bool:
    return any(source.stream for source in spec.sources.values()) or any(sink.stream for sink in spec.sinks)


def placed(spec: PipelineSpec, directory: Path) -> PipelineSpec:
    """Places that are not absolute begin at the directory of the file, wherever the command is run."""

    def source(each: SourceSpec) -> SourceSpec:
        archive = each.archive if each.archive in _NO_PLACES else _absolute(each.archive, directory)
        return msgspec.structs.replace(each, parquet=_absolute(each.parquet, directory), archive=archive)

    def sink(each: SinkSpec) -> SinkSpec:
        return msgspec.structs.replace(each, parquet=_absolute(each.parquet, directory))

    return msgspec.structs.replace(
        spec,
        sources={name: source(each) for name, each in spec.sources.items()},
        sinks=[sink(each) for each in spec.sinks],
        checkpoint=_absolute(spec.checkpoint, directory),
    )


def _absolute(place: str | None, directory: Path) -> str | None:
    return place if place is None or _SCHEME.match(place) else str(directory / place)


def run_yaml(spark: SparkSession, spec: PipelineSpec, run: Run) -> State:
    own = spark.newSession()
    settings = option_texts(spec.spark)
    # Spark's own 200 make small batches slow; a checkpoint keeps the number that it was made with.
    settings.setdefault(SHUFFLE_PARTITIONS, str(max(spark.sparkContext.defaultParallelism, 1)))
    for name, value in settings.items():
        if own.conf.isModifiable(name):
            own.conf.set(name, value)
    watcher = Watcher(own, run)
    return watcher.follow(lambda: _start(own, spec, run, watcher))


def _start(spark: SparkSession, spec: PipelineSpec, run: Run, watcher: Watcher) -> None:
    """Batches first, one after the other; then all queries, side by side."""
    streams = written_streams(spec)
    if streams:
        if run.target is None:
            raise BadRequest("writing to a stream takes a node.", field=next(iter(streams.values())))
        require_no_loop(spec, run.target)
        require_streams(run.target, streams, create=spec.create_streams)
    found = outputs(spark, spec, run.target)
    run.audience.started(run.file.run)
    for output in found:
        if not output.frame.isStreaming and not run.stop.is_set():
            query, started = f"{run.checkpoint}/{output.name}", re.sub(r"\D", "", run.file.run.started)
            rows = write_once(output, query, started, run.target, run.audience.shown)
            watcher.done(QueryRun(output.name, batch=0, rows_out=rows))
    for output in found:
        if output.frame.isStreaming and not run.stop.is_set():
            place = f"{run.checkpoint}/{output.name}"
            watcher.add(start(output, run.target, place, once=run.once, shown=run.audience.shown), output.name)
