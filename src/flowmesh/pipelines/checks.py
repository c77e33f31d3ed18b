"""What the fields of a pipeline have to do with each other. Their shape is right already; Spark is not asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from flowmesh.base.errors import BadRequest, FlowMeshError
from flowmesh.base.names import checked_name
from flowmesh.base.times import duration_from_text, from_text
from flowmesh.pipelines.spec import PipelineSpec, SinkSpec, SourceSpec, StepSpec, WatermarkSpec, WindowSpec

EARLIEST, LATEST = "earliest", "latest"
ONLY_OF_STREAMS = ("schema", "from", "until", "archive", "bad_records", "dead_letter", "group", "hold")
_HIDES_ERRORS = ("columns", "valuecolumn")
_VIEW = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_MILLISECOND_NS = 1_000_000


def check(spec: PipelineSpec) -> None:
    _named("name", spec.name)
    if not spec.sources:
        raise _wrong("sources", "there is none.", "Name one: 'orders: {stream: orders}'.")
    views: dict[str, WatermarkSpec | None] = {}
    for name, source in spec.sources.items():
        _new_view(f"sources.{name}", name, views)
        _check_source(f"sources.{name}", source)
        views[name] = source.watermark
    for number, step in enumerate(spec.steps):
        _new_view(f"steps[{number}].name", step.name, views)
        _check_step(f"steps[{number}]", step, views)
        views[step.name] = step.watermark
    if not spec.sinks:
        raise _wrong("sinks", "there is none.", f"Name one: '- {{from: {next(iter(views))}, console: true}}'.")
    for number, sink in enumerate(spec.sinks):
        _check_sink(f"sinks[{number}]", sink, views)
    _check_queries(spec)


def _check_queries(spec: PipelineSpec) -> None:
    """A query's name is that of its checkpoint, so no two may have one."""
    names: set[str] = set()
    letters = [(f"sources.{view}", dead_letter_name(view)) for view, each in spec.sources.items() if each.dead_letter]
    sinks = [(f"sinks[{number}].name", sink_name(sink)) for number, sink in enumerate(spec.sinks)]
    for place, name in (*letters, *sinks):
        _named(place, name)
        if name in names:
            raise _wrong(place, f"there is a query {name!r} already.", "Give one of the two another name.")
        names.add(name)


def sink_name(sink: SinkSpec) -> str:
    return sink.name or f"{sink.source.lower().strip('_')}-{kind_of(sink)}"


def dead_letter_name(view: str) -> str:
    """What the query of a source's dead letters is called."""
    return f"{view.lower().strip('_')}-dead-letter"


def kind_of(sink: SinkSpec) -> str:
    return "stream" if sink.stream is not None else "parquet" if sink.parquet is not None else "console"


def reads_as_stream(source: SourceSpec) -> bool:
    return (source.read or ("stream" if source.stream is not None else "batch")) == "stream"


def milliseconds(text: str) -> int:
    return duration_from_text(text) // _MILLISECOND_NS


# --- sources ------------------------------------------------------------------------------------------------------


def _check_source(place: str, source: SourceSpec) -> None:
    _exactly_one(place, {"stream": source.stream, "parquet": source.parquet})
    if source.watermark is not None:
        _check_watermark(f"{place}.watermark", source.watermark)
    if source.stream is None:
        given = {name: getattr(source, name, None) for name in ONLY_OF_STREAMS} | {"from": source.start}
        for name in ONLY_OF_STREAMS:
            if given[name] is not None:
                raise _wrong(f"{place}.{name}", "it has a meaning for streams only.", "Leave it out.")
        return
    _stream_name(f"{place}.stream", source.stream)
    _moment(f"{place}.from", source.start, (EARLIEST, LATEST))
    _moment(f"{place}.until", source.until, (LATEST,))
    if reads_as_stream(source):
        if source.until is not None:
            raise _wrong(
                f"{place}.until", "a stream that is followed has no end.", "Add 'read: batch', or leave it out."
            )
        if source.group is not None:
            _named(f"{place}.group", source.group)
        _length(f"{place}.hold", source.hold)
    else:
        for name in ("group", "hold"):
            if getattr(source, name) is not None:
                raise _wrong(f"{place}.{name}", "a batch has no position to show.", "Leave it out.")
        if source.start == LATEST:
            raise _wrong(f"{place}.from", "a batch that begins at 'latest' has no rows.")
    _check_bad_records(place, source)


def _check_bad_records(place: str, source: SourceSpec) -> None:
    for name in ("bad_records", "dead_letter"):
        if getattr(source, name) is not None and source.schema is None:
            raise _wrong(f"{place}.{name}", "without a schema every value fits.", f"Add '{place}.schema'.")
    if source.dead_letter is not None or source.bad_records == "drop":
        for name in source.options:
            if name.lower() in _HIDES_ERRORS:
                message = "with it the source does not say which records do not fit."
                raise _wrong(f"{place}.options.{name}", message, "Choose columns in a step.")
    if source.dead_letter is None:
        return
    _stream_name(f"{place}.dead_letter", source.dead_letter)
    if source.bad_records is not None:
        message = "with 'dead_letter' they go there, and nowhere else."
        raise _wrong(f"{place}.bad_records", message, "Leave one of the two out.")
    if source.dead_letter == source.stream:
        raise dead_letter_loop(f"{place}.dead_letter")


def dead_letter_loop(place: str) -> BadRequest:
    return _wrong(place, "it is the source itself.", "Name another stream.")


def _check_watermark(place: str, watermark: WatermarkSpec) -> None:
    if not watermark.column:
        raise _wrong(f"{place}.column", "it is empty.")
    _length(f"{place}.delay", watermark.delay)


# --- steps --------------------------------------------------------------------------------------------------------


def _check_step(place: str, step: StepSpec, views: Mapping[str, WatermarkSpec | None]) -> None:
    _exactly_one(place, {"sql": step.sql, "window": step.window})
    if step.watermark is not None:
        _check_watermark(f"{place}.watermark", step.watermark)
    if step.sql is not None and not step.sql.strip():
        raise _wrong(f"{place}.sql", "it is empty.")
    if step.window is not None:
        _check_window(f"{place}.window", step.window, views)


def _check_window(place: str, window: WindowSpec, views: Mapping[str, WatermarkSpec | None]) -> None:
    watermark = views[_known(f"{place}.from", window.source, views)]
    _exactly_one(place, {"size": window.size, "gap": window.gap})
    for name in ("size", "slide", "gap"):
        _length(f"{place}.{name}", getattr(window, name))
    if window.slide is not None and window.size is None:
        raise _wrong(f"{place}.slide", "a window with a gap does not slide.", "Leave it out.")
    if window.slide is not None and window.size is not None and milliseconds(window.slide) > milliseconds(window.size):
        raise _wrong(f"{place}.slide", f"it is longer than the size, {window.size}: rows would be left out.")
    if not window.select:
        raise _wrong(f"{place}.select", "there is none.", "Write what to compute, as in 'revenue: sum(amount)'.")
    if window.column is None and watermark is None:
        hint = f"Name the column, or give {window.source!r} a watermark."
        raise _wrong(
            f"{place}.column", f"{window.source!r} has no watermark that says which column has the time.", hint
        )


# --- sinks --------------------------------------------------------------------------------------------------------


def _check_sink(place: str, sink: SinkSpec, views: Mapping[str, WatermarkSpec | None]) -> None:
    _known(f"{place}.from", sink.source, views)
    _exactly_one(place, {"stream": sink.stream, "parquet": sink.parquet, "console": sink.console or None})
    _length(f"{place}.trigger", sink.trigger)
    if sink.stream is not None:
        _stream_name(f"{place}.stream", sink.stream)
        if sink.mode == "complete":
            message = "a stream is only ever appended to; all rows each time would fill it."
            raise _wrong(f"{place}.mode", message, "Write 'append' or 'update'.")
    elif sink.key is not None:
        raise _wrong(f"{place}.key", "only the records of a stream have keys.", "Leave it out.")
    if sink.parquet is not None and sink.mode != "append":
        raise _wrong(f"{place}.mode", "files are only ever added.", "Write 'append'.")


# --- single fields ------------------------------------------------------------------------------------------------


def _exactly_one(place: str, given: Mapping[str, object]) -> None:
    there = [name for name, value in given.items() if value is not None]
    names = list(given)
    options = f"{', '.join(names[:-1])} or {names[-1]}"
    if not there:
        raise _wrong(f"{place}.{names[0]}", "it is missing.", f"One of {options} has to be there.")
    if len(there) > 1:
        raise _wrong(f"{place}.{there[1]}", f"there is '{there[0]}' already.", f"Only one of {options} can be there.")


def _new_view(place: str, name: str, views: Mapping[str, object]) -> None:
    if _VIEW.fullmatch(name) is None:
        hint = "Use up to 64 letters, digits and '_', and no digit in front: SQL has to be able to say it."
        raise _wrong(place, f"{name[:80]!r} is no name of a view.", hint)
    if name.lower() in {known.lower() for known in views}:
        raise _wrong(place, f"there is a view {name!r} already.", "Views have different names, whatever the case.")


def _known(place: str, name: str, views: Mapping[str, object]) -> str:
    if name not in views:
        raise _wrong(place, f"there is no view {name[:80]!r} before it.", f"There are {', '.join(views)}.")
    return name


def _named(place: str, name: str) -> None:
    try:
        checked_name(name, place)
    except FlowMeshError as error:
        raise _wrong(place, f"{name[:80]!r} is not a name.", error.hint) from None


def _stream_name(place: str, name: str) -> None:
    parts = name.split("/")
    if len(parts) > 3:
        raise _wrong(place, f"{name[:80]!r} is no stream.", "Write name, namespace/name or tenant/namespace/name.")
    for part in parts:
        _named(place, part)


def _length(place: str, text: str | None) -> None:
    if text is None:
        return
    try:
        short = milliseconds(text) < 1
    except FlowMeshError as error:
        raise _wrong(place, f"{text[:60]!r} is no length of time.", error.hint) from None
    if short:
        raise _wrong(place, f"{text} is too short.", "A millisecond, 1ms, is the least.")


def _moment(place: str, text: str | None, words: Sequence[str]) -> None:
    if text is None or text in words:
        return
    try:
        from_text(text)
    except FlowMeshError:
        hint = f"Write {', '.join(words)} or a time such as 2026-01-31T12:00:00Z."
        raise _wrong(place, f"{text[:60]!r} is no place in a stream.", hint) from None


def _wrong(place: str, message: str, hint: str | None = None) -> BadRequest:
    return BadRequest(f"{place}: {message}", field=place, hint=hint)
