"""Sources and steps as Spark's temporary views, and what of them one query needs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flowmesh.base.errors import BadRequest, FlowMeshError
from flowmesh.pipelines.checks import EARLIEST, LATEST, milliseconds, reads_as_stream
from flowmesh.pipelines.failures import reason_of
from flowmesh.pipelines.spec import Options, PipelineSpec, SourceSpec, StepSpec, WatermarkSpec, WindowSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flowmesh.pipelines.target import NodeTarget

ERROR_COLUMN = "_error"
DEAD_LETTER_COLUMNS = ("partition", "offset", "key", "value", "headers", ERROR_COLUMN)


def option_texts(options: Options) -> dict[str, str]:
    """As Spark spells them."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


# --- what is needed -----------------------------------------------------------------------------------------------


def needed_views(spec: PipelineSpec, view: str) -> list[str]:
    """The sources and steps that a view is made of, itself included, in the order of the file.

    A query can only see a view whose name stands in it, so words are enough; one too many does no harm.
    """
    steps = {step.name: step for step in spec.steps}
    wanted, known = [view], {view}
    for name in wanted:
        step = steps.get(name)
        if step is None:
            continue
        words = {word.lower() for word in re.findall(r"\w+", step.sql or (step.window.source if step.window else ""))}
        more = [each for each in (*spec.sources, *steps) if each.lower() in words and each not in known]
        known.update(more)
        wanted += more
    return [each for each in (*spec.sources, *steps) if each in known]


# --- sources ------------------------------------------------------------------------------------------------------


def source_frame(
    spark: SparkSession, name: str, source: SourceSpec, target: NodeTarget | None, group: str | None
) -> DataFrame:
    """The rows of a source. `group` shows the position of the query that they are read for."""
    place = f"sources.{name}"
    with Naming(place):
        if source.stream is None:
            found = _parquet(spark, source)
        else:
            found = _loaded(spark, source, _reader(spark, source, target, group), place)
            if source.dead_letter is not None or source.bad_records == "drop":
                found = found.where(found[ERROR_COLUMN].isNull()).drop(ERROR_COLUMN)
        return _watermarked(found, source.watermark)


def dead_letters(
    spark: SparkSession, name: str, source: SourceSpec, target: NodeTarget, group: str | None
) -> DataFrame:
    """The records of a source that do not fit, as records: value and key as they were, and headers that say why."""
    from pyspark.sql import functions as f

    from flowmesh.spark.schema import value_fields

    with Naming(f"sources.{name}"):
        assert source.schema is not None
        typed = [field.name for field in value_fields(source.schema)]
        columns = ",".join(f"`{column}`" for column in (*DEAD_LETTER_COLUMNS, *typed))
        found: DataFrame = _reader(spark, source, target, group).option("columns", columns).load()
        said = {
            "x-flowmesh-error": found[ERROR_COLUMN],
            "x-flowmesh-stream": f.lit(target.path(str(source.stream))),
            "x-flowmesh-partition": found["partition"],
            "x-flowmesh-offset": found["offset"],
        }
        headers = f.array(
            *[
                f.struct(f.lit(header).alias("key"), value.cast("string").cast("binary").alias("value"))
                for header, value in said.items()
            ]
        )
        whole = f.concat(f.coalesce(found["headers"], f.array().cast(found.schema["headers"].dataType)), headers)
        return found.where(found[ERROR_COLUMN].isNotNull()).select("key", "value", whole.alias("headers"))


def _reader(spark: SparkSession, source: SourceSpec, target: NodeTarget | None, group: str | None) -> Any:
    assert source.stream is not None
    streaming = reads_as_stream(source)
    reader: Any = spark.readStream if streaming else spark.read
    if target is None:
        raise BadRequest("a stream takes a node.", hint="Log in to one with 'flowmesh login', or give --url.")
    options = target.options(source.stream)
    if source.schema is not None:
        options["valueSchema"] = source.schema
        fails = source.bad_records in (None, "fail") and source.dead_letter is None
        options["badRecords"] = "fail" if fails else "null"
    options |= _start(source.start or EARLIEST)
    if source.until is not None and source.until != LATEST:
        options["endingTimestamp"] = source.until
    if source.archive is not None:
        options["archive"] = source.archive
    if streaming and group is not None:
        options["group"] = group
        if source.hold is not None:
            options["hold"] = source.hold
    return reader.format("flowmesh").options(**(options | option_texts(source.options)))


def _loaded(spark: Any, source: SourceSpec, reader: Any, place: str) -> DataFrame:
    """Spark parses the schema behind the other columns, in two ways, and says what it thinks of the wrong one."""
    from pyspark.errors import ParseException

    try:
        found: DataFrame = reader.load()
        return found
    except ParseException:
        with Naming(f"{place}.schema"):
            spark._jvm.org.apache.spark.sql.types.StructType.fromDDL(source.schema)
        raise


def _start(start: str) -> dict[str, str]:
    return {"startingOffsets": start} if start in (EARLIEST, LATEST) else {"startingTimestamp": start}


def _parquet(spark: SparkSession, source: SourceSpec) -> DataFrame:
    """Followed, a directory takes its columns from the files that are there now."""
    options = option_texts(source.options)
    found = spark.read.options(**options).parquet(str(source.parquet))
    if reads_as_stream(source):
        found = spark.readStream.options(**options).schema(found.schema).parquet(str(source.parquet))
    return found


def _watermarked(frame: DataFrame, watermark: WatermarkSpec | None) -> DataFrame:
    if watermark is None:
        return frame
    return frame.withWatermark(watermark.column, f"{milliseconds(watermark.delay)} milliseconds")


# --- steps --------------------------------------------------------------------------------------------------------


def step_frame(spark: SparkSession, spec: PipelineSpec, number: int) -> DataFrame:
    step = spec.steps[number]
    with Naming(f"steps[{number}].{'sql' if step.sql is not None else 'window'}"):
        return _watermarked(spark.sql(step_sql(spec, step)), step.watermark)


def step_sql(spec: PipelineSpec, step: StepSpec) -> str:
    if step.window is None:
        assert step.sql is not None
        return step.sql
    return window_sql(step.window, step.window.column or _watermark_column(spec, step.window.source))


def window_sql(window: WindowSpec, column: str) -> str:
    """The query that the shorthand stands for."""
    time = _quoted(column)
    if window.gap is not None:
        cut = f"session_window({time}, '{milliseconds(window.gap)} milliseconds')"
    else:
        assert window.size is not None
        lengths = [window.size] if window.slide is None else [window.size, window.slide]
        cut = f"window({', '.join([time, *(_interval(length) for length in lengths)])})"
    made = "session_window" if window.gap is not None else "window"
    by = [_quoted(each) for each in window.by]
    computed = [f"{expression} AS {_quoted(name)}" for name, expression in window.select.items()]
    columns = [f"{made}.start AS window_start", f"{made}.end AS window_end", *by, *computed]
    return f"SELECT {', '.join(columns)} FROM {_quoted(window.source)} GROUP BY {', '.join([cut, *by])}"


def _watermark_column(spec: PipelineSpec, view: str) -> str:
    source = spec.sources.get(view)
    found = source.watermark if source else next(step.watermark for step in spec.steps if step.name == view)
    assert found is not None, "it was checked"
    return found.column


def _interval(length: str) -> str:
    return f"'{milliseconds(length)} milliseconds'"


def _quoted(name: str) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in name.split("."))


class Naming:
    """Puts the field of the file in front of what Spark has to say."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FlowMeshError) and (error.field or "").startswith(f"{self._place}."):
            return  # it says already, and better
        if isinstance(error, Exception):
            hint = error.hint if isinstance(error, FlowMeshError) else None
            message = error.message if isinstance(error, FlowMeshError) else reason_of(error)
            raise BadRequest(f"{self._place}: {message}", field=self._place, hint=hint) from error
