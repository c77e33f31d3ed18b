"""What a run looks like while it goes on: lines that stand still in a terminal, now and then one elsewhere, or JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import click
import msgspec

from flowmesh.base.times import from_text
from flowmesh.cli.tables import aligned, count_text
from flowmesh.pipelines.registry import PipelineRun, QueryRun
from flowmesh.pipelines.running import Audience

PAUSE_S = 5.0
"""Between two lines about a query where there is no terminal."""
_TITLES = ("query", "batch", "rows in", "rows out", "late", "rows/s", "lag")


class FullAudience(Audience, Protocol):
    """One that stays until the end."""

    def ended(self, run: PipelineRun) -> None: ...


@contextmanager
def audience_for(*, as_json: bool) -> Iterator[FullAudience]:
    if as_json:
        yield JsonEvents()
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        # What goes to a terminal beside these lines has to go above them; what goes to a pipe must not.
        redirect = sys.stdout.isatty()
        with Live(
            console=Console(stderr=True), transient=True, redirect_stdout=redirect, redirect_stderr=False
        ) as live:
            yield LiveLines(live)
    else:
        yield PlainLines()


class PlainLines:
    """For a log: a line for each query from time to time, and a table at the end."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def started(self, run: PipelineRun) -> None:
        click.echo(f"{run.name}: running {(run.mode == 'once' and 'once') or 'until it is stopped'}", err=True)

    def progress(self, run: PipelineRun, changed: Sequence[QueryRun]) -> None:
        for query in changed:
            if time.monotonic() - self._last.get(query.name, -PAUSE_S) >= PAUSE_S:
                self._last[query.name] = time.monotonic()
                click.echo(f"{run.name}: {progress_text(query)}", err=True)

    def shown(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]], more: bool) -> None:
        lines = aligned(columns, [["" if cell is None else cell for cell in row] for row in rows])
        click.echo("\n".join([f"-- {name}", *lines, *(["…"] if more else [])]))

    def said(self, line: str) -> None:
        click.echo(line, err=True)

    def ended(self, run: PipelineRun) -> None:
        took = (from_text(run.ended or run.started) - from_text(run.started)) / 1e9
        click.echo(f"{run.name}: {run.state} after {took:.1f} s")
        if run.queries:
            click.echo("\n".join(aligned(_TITLES, [_cells(query) for query in run.queries])))


class LiveLines(PlainLines):
    def __init__(self, live: Any) -> None:
        super().__init__()
        self._live = live

    def started(self, run: PipelineRun) -> None:
        self._live.update(f"{run.name}: running, no batch yet")

    def progress(self, run: PipelineRun, _changed: Sequence[QueryRun]) -> None:
        self._live.update("\n".join(f"{run.name}: {progress_text(query)}" for query in run.queries))

    def ended(self, run: PipelineRun) -> None:
        self._live.stop()
        super().ended(run)


class JsonEvents:
    def started(self, run: PipelineRun) -> None:
        _say("started", run, {"file": run.file, "pid": run.pid, "mode": run.mode})

    def progress(self, run: PipelineRun, changed: Sequence[QueryRun]) -> None:
        for query in changed:
            _say("progress", run, _facts(query))

    def shown(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]], more: bool) -> None:
        found = [dict(zip(columns, row, strict=True)) for row in rows]
        click.echo(json.dumps({"event": "rows", "query": name, "rows": found, "more": more}, default=str))

    def said(self, line: str) -> None:
        click.echo(json.dumps({"event": "log", "line": line}))

    def ended(self, run: PipelineRun) -> None:
        _say("ended", run, {"state": run.state, "error": run.error, "lag": run.lag,
                            "queries": [_facts(query) for query in run.queries]})  # fmt: skip


def progress_text(query: QueryRun) -> str:
    lag = "" if query.lag is None else f", {count_text(query.lag, 'record')} behind"
    late = f", {count_text(query.rows_late, 'row')} too late" if query.rows_late else ""
    batch = "" if query.batch is None else f" batch {query.batch:,},"
    return (
        f"{query.name}:{batch} {query.rows_in:,} in, {query.rows_out:,} out,"
        f" {query.rows_per_second:,.0f} rows/s{lag}{late}"
    )


def _cells(query: QueryRun) -> tuple[object, ...]:
    batch, lag = ("-" if each is None else each for each in (query.batch, query.lag))
    return (query.name, batch, query.rows_in, query.rows_out, query.rows_late, round(query.rows_per_second), lag)


def _facts(query: QueryRun) -> dict[str, Any]:
    found: dict[str, Any] = {each: getattr(query, each) for each in query.__struct_fields__ if each != "name"}
    return {"query": query.name, **msgspec.to_builtins(found)}


def _say(event: str, run: PipelineRun, facts: Mapping[str, Any]) -> None:
    click.echo(json.dumps({"event": event, "pipeline": run.name, **facts}))
