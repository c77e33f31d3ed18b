"""Starting the query of an output, and counting what goes through it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flowmesh.pipelines.checks import kind_of, milliseconds
from flowmesh.pipelines.failures import PipelineFailed, reason_of
from flowmesh.pipelines.outputs import Output
from flowmesh.pipelines.parquet_sink import ParquetSink
from flowmesh.pipelines.views import option_texts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from flowmesh.pipelines.target import NodeTarget

ROWS_OUT = "rows_out"
ROWS_SHOWN_MAX = 20
READY_S = 60.0
_PAUSE_S = 0.05
_INITIALIZING = "Initializing"
RAW_COLUMNS = frozenset({"key", "value", "headers", "partition", "timestamp"})

Shown = Callable[[str, Sequence[str], Sequence[Sequence[object]], bool], None]
"""Told the name of a console sink, its columns, some rows, and whether there are more."""


def start(output: Output, target: NodeTarget | None, checkpoint: str, *, once: bool, shown: Shown) -> StreamingQuery:
    """A query that runs in the background."""
    sink, frame = output.sink, _counted(output)
    kind = kind_of(sink)
    writer: Any = _as_records(output, frame).writeStream.outputMode(sink.mode)
    writer = writer.option("checkpointLocation", checkpoint)
    if once:
        writer = writer.trigger(availableNow=True)
    elif sink.trigger is not None:
        writer = writer.trigger(processingTime=f"{milliseconds(sink.trigger)} milliseconds")
    if kind == "stream":
        writer = writer.format("flowmesh").options(**_stream_options(output, target))
    elif kind == "parquet":
        writer = writer.foreachBatch(ParquetSink(str(sink.parquet), checkpoint, option_texts(sink.options)))
    else:
        writer = writer.foreachBatch(_showing(output.name, shown))
    try:
        query: StreamingQuery = writer.start()
        _wait_for_sources(query)
        return query
    except Exception as error:
        raise PipelineFailed(f"sink {output.name!r}: {reason_of(error)}") from error


def _wait_for_sources(query: StreamingQuery) -> None:
    """Each has a process of its own for its positions, which Spark gives ten seconds to start: one after the other."""
    deadline = time.monotonic() + READY_S
    while query.isActive and query.status["message"].startswith(_INITIALIZING) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)


def write_once(output: Output, query: str, run: str, target: NodeTarget | None, shown: Shown) -> int:
    """A batch, from sources that have an end. Returns how many rows it had.

    `query` is what it is called over all runs, and `run` what only this one is called.
    """
    from pyspark.sql import Observation

    sink, kind = output.sink, kind_of(output.sink)
    observation = Observation(ROWS_OUT)
    frame = _as_records(output, output.frame.observe(observation, _count()))
    try:
        if kind == "console":
            return _showing(output.name, shown)(output.frame, 0)
        if kind == "stream":
            frame.write.format("flowmesh").mode("append").options(**_stream_options(output, target)).save()
        else:
            ParquetSink(str(sink.parquet), query, option_texts(sink.options))(frame, run)
    except Exception as error:
        raise PipelineFailed(f"sink {output.name!r}: {reason_of(error)}") from error
    return int(observation.get[ROWS_OUT])


def _counted(output: Output) -> DataFrame:
    """Rows that leave are counted here: Spark does not say for every sink."""
    return output.frame.observe(ROWS_OUT, _count())


def _count() -> Column:
    from pyspark.sql import functions as f

    return f.count(f.lit(1)).alias(ROWS_OUT)


def _as_records(output: Output, frame: DataFrame) -> DataFrame:
    key = output.sink.key
    if key is None:
        return frame
    return frame.withColumn("key", frame[key].cast("string"))


def _stream_options(output: Output, target: NodeTarget | None) -> dict[str, str]:
    """A view with a `value` is written as it is; of any other, the columns become one JSON object."""
    assert target is not None, "it was looked for before"
    columns = {name.lower() for name in output.frame.columns}
    options = target.options(str(output.sink.stream))
    if not ("value" in columns and columns <= RAW_COLUMNS):
        options["valueFormat"] = "json"
    return options | option_texts(output.sink.options)


def _showing(name: str, shown: Shown) -> Callable[..., int]:
    def show(frame: DataFrame, _batch: int) -> int:
        # Kept, so that all rows are gone through once: those that are not shown count too.
        frame.persist()
        try:
            count = frame.count()
            if count:
                rows = [list(row) for row in frame.take(ROWS_SHOWN_MAX)]
                shown(name, frame.columns, rows, count > ROWS_SHOWN_MAX)
            return count
        finally:
            frame.unpersist()

    return show
