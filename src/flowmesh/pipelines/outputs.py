"""The queries of a pipeline: each sink, and each dead-letter stream, with the rows that go there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from flowmesh.base.errors import BadRequest
from flowmesh.base.names import checked_name
from flowmesh.pipelines.checks import dead_letter_loop, dead_letter_name, reads_as_stream, sink_name
from flowmesh.pipelines.spec import PipelineSpec, SinkSpec
from flowmesh.pipelines.views import Naming, dead_letters, needed_views, source_frame, step_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flowmesh.pipelines.target import NodeTarget


class Output(NamedTuple):
    name: str
    sink: SinkSpec
    frame: DataFrame
    as_records: bool = False
    """The rows are records already."""


def outputs(spark: SparkSession, spec: PipelineSpec, target: NodeTarget | None) -> list[Output]:
    """Each is analysed by Spark on its own, so that each shows its own position."""
    groups = group_names(spec, target)
    found = []
    for number, sink in enumerate(spec.sinks):
        name = sink_name(sink)
        for view in needed_views(spec, sink.source):
            source = spec.sources.get(view)
            if source is not None:
                frame = source_frame(spark, view, source, target, groups.get((name, view)))
            else:
                frame = step_frame(spark, spec, [step.name for step in spec.steps].index(view))
            frame.createOrReplaceTempView(view)
        frame = spark.table(sink.source)
        if sink.key is not None:
            with Naming(f"sinks[{number}].key"):
                _ = frame[sink.key]  # which says what is there, if this is not
        found.append(Output(name, sink, frame))
    for view, source in spec.sources.items():
        if source.dead_letter is not None and target is not None:
            name = dead_letter_name(view)
            frame = dead_letters(spark, view, source, target, groups.get((name, view)))
            found.append(Output(name, SinkSpec(source=view, stream=source.dead_letter), frame, as_records=True))
    return found


def written_streams(spec: PipelineSpec) -> dict[str, str]:
    """Streams that a run appends to, and which field of the file says so."""
    found = {
        sink.stream: f"sinks[{number}].stream" for number, sink in enumerate(spec.sinks) if sink.stream is not None
    }
    for view, source in spec.sources.items():
        if source.dead_letter is not None:
            found[source.dead_letter] = f"sources.{view}.dead_letter"
    return found


def require_no_loop(spec: PipelineSpec, target: NodeTarget) -> None:
    """Only the node's context says what a short name of a stream stands for."""
    for view, source in spec.sources.items():
        letters = source.dead_letter
        if letters is not None and source.stream is not None and target.path(letters) == target.path(source.stream):
            raise dead_letter_loop(f"sources.{view}.dead_letter")


def group_names(spec: PipelineSpec, target: NodeTarget | None) -> dict[tuple[str, str], str]:
    """By query and view: the name under which the query shows how far it has read the stream of that view.

    It is the pipeline's own where one query reads a stream once, and has the query and the view in it where not.
    """
    reads: list[tuple[str, str, str]] = []
    for query, views in queries(spec):
        for view in views:
            source = spec.sources.get(view)
            if source is not None and source.stream is not None and reads_as_stream(source):
                reads.append((query, view, target.path(source.stream) if target else source.stream))
    of_stream = Counter(stream for _, _, stream in reads)
    of_query = Counter((query, stream) for query, _, stream in reads)
    names = {}
    for query, view, stream in reads:
        parts = [spec.sources[view].group or spec.name]
        if of_stream[stream] > 1:
            parts.append(query)
        if of_query[query, stream] > 1:
            parts.append(view.lower().strip("_"))
        names[query, view] = _checked("-".join(parts), view)
    return names


def queries(spec: PipelineSpec) -> list[tuple[str, Sequence[str]]]:
    """Names, and the views that each is made of."""
    sinks = [(sink_name(sink), needed_views(spec, sink.source)) for sink in spec.sinks]
    letters = [(dead_letter_name(view), [view]) for view, each in spec.sources.items() if each.dead_letter is not None]
    return [*sinks, *letters]


def _checked(name: str, view: str) -> str:
    try:
        return checked_name(name, "group")
    except BadRequest as error:
        place = f"sources.{view}.group"
        raise BadRequest(f"{place}: {name!r} cannot be a group.", field=place, hint=error.hint) from None
