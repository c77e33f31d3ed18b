"""What a pipeline is made of, as its YAML file says it. docs/pipelines.md has the same, and a test compares."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

Mode = Literal["append", "update", "complete"]
BadRecords = Literal["fail", "keep", "drop"]
Reading = Literal["stream", "batch"]
Options = dict[str, str | int | float | bool]


class WatermarkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long late rows are waited for."""

    column: Annotated[str, Meta(description="The column that says when a row happened, of type TIMESTAMP.")]
    delay: Annotated[str, Meta(description="How far behind the newest row a row may come, such as `30s` or `10m`.")]


class SourceSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where rows come from. Its name in the file is that of the view that SQL sees."""

    stream: Annotated[str | None, Meta(description="A stream: `name` or `tenant/namespace/name`.")] = None
    parquet: Annotated[str | None, Meta(description="A directory of Parquet files, or one file.")] = None
    schema: Annotated[
        str | None, Meta(description="What the JSON in the values has, as Spark DDL: typed columns. Streams only.")
    ] = None
    read: Annotated[
        Reading | None, Meta(description="`stream` (streams) or `batch` (Parquet): all that is there now, once.")
    ] = None
    start: Annotated[
        str | None, Meta(description="Where a new pipeline begins: `earliest`, `latest` or a time. Else `earliest`.")
    ] = field(default=None, name="from")
    until: Annotated[str | None, Meta(description="A time before which a batch of a stream ends.")] = None
    archive: Annotated[
        str | None, Meta(description="The cold tier of the stream: its place, or `none`. Else what the node says.")
    ] = None
    watermark: Annotated[WatermarkSpec | None, Meta(description="How long late rows are waited for.")] = None
    bad_records: Annotated[
        BadRecords | None,
        Meta(description="Of values that do not fit: `fail` (the default), `keep` with column `_error`, or `drop`."),
    ] = None
    dead_letter: Annotated[
        str | None, Meta(description="A stream that receives the records that do not fit, and why.")
    ] = None
    group: Annotated[
        str | None, Meta(description="The group that shows how far the pipeline has read. Else made of its names.")
    ] = None
    hold: Annotated[
        str | None, Meta(description="How long retention keeps what is not read after the last sign of life.")
    ] = None
    options: Annotated[Options, Meta(description="Further options of the reader, as Spark's own.")] = {}


class WindowSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows gathered by time and by columns: a shorthand for SQL with `window(…)`."""

    source: Annotated[str, Meta(description="The view whose rows are gathered.")] = field(name="from")
    select: Annotated[
        dict[str, str], Meta(description="New columns, each an SQL aggregate, as in `revenue: sum(amount)`.")
    ]
    size: Annotated[str | None, Meta(description="How long a window is, such as `1m`.")] = None
    slide: Annotated[str | None, Meta(description="How far apart windows begin. Else `size`: no overlap.")] = None
    gap: Annotated[
        str | None, Meta(description="In the place of `size`: a window ends where so long nothing came.")
    ] = None
    column: Annotated[str | None, Meta(description="The column with the time. Else that of the view's watermark.")] = (
        None
    )
    by: Annotated[list[str], Meta(description="Columns whose values are kept apart.")] = []


class StepSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view made of earlier ones, with exactly one of `sql` and `window`."""

    name: Annotated[str, Meta(description="The name of the view.")]
    sql: Annotated[str | None, Meta(description="A query over the sources and the steps before it.")] = None
    window: Annotated[WindowSpec | None, Meta(description="A window, which writes its query itself.")] = None
    watermark: Annotated[
        WatermarkSpec | None, Meta(description="How long late rows are waited for after this step.")
    ] = None


class SinkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where rows go, with exactly one of `stream`, `parquet` and `console`."""

    source: Annotated[str, Meta(description="The view that is written.")] = field(name="from")
    name: Annotated[
        str | None, Meta(description="What its progress and its checkpoint are called. Else made of view and kind.")
    ] = None
    stream: Annotated[str | None, Meta(description="A stream, which gets one record for each row.")] = None
    parquet: Annotated[str | None, Meta(description="A directory, which gets whole files, each exactly once.")] = None
    console: Annotated[bool, Meta(description="Shows the first rows of each batch.")] = False
    key: Annotated[str | None, Meta(description="The column that becomes the key of a stream's records.")] = None
    mode: Annotated[
        Mode,
        Meta(description="`append`: rows that are final. `update`: those that changed. `complete`: all, each time."),
    ] = "append"
    trigger: Annotated[
        str | None, Meta(description="The least time between two batches. Else as soon as there are rows.")
    ] = None
    options: Annotated[Options, Meta(description="Further options of the writer, as Spark's own.")] = {}


class PipelineSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole file."""

    name: Annotated[str, Meta(description="Under which its runs are listed. One run of a name at a time.")]
    sources: Annotated[dict[str, SourceSpec], Meta(description="Where rows come from, by the name of their view.")]
    sinks: Annotated[list[SinkSpec], Meta(description="Where rows go.")]
    steps: Annotated[list[StepSpec], Meta(description="Views made of earlier ones, in order.")] = []
    checkpoint: Annotated[
        str | None, Meta(description="A directory for how far it has come. Else one below the state directory.")
    ] = None
    create_streams: Annotated[bool, Meta(description="Makes the streams that it writes to where they are missing.")] = (
        False
    )
    master: Annotated[str | None, Meta(description="The Spark cluster. Else this machine: `local[*]`.")] = None
    spark: Annotated[Options, Meta(description="Settings of the Spark session.")] = {}


TABLES: dict[str, type[msgspec.Struct]] = {
    "pipeline": PipelineSpec,
    "source": SourceSpec,
    "watermark": WatermarkSpec,
    "step": StepSpec,
    "window": WindowSpec,
    "sink": SinkSpec,
}
"""The tables of the reference page, by what their first column is called."""
