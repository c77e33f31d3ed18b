"""`flowmesh pipeline run|list`: pipelines from a shell. Running one is the work of `flowmesh.pipelines`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowmesh.cli.connection_options import Asked, connected
from flowmesh.cli.parameters import json_option
from flowmesh.cli.spark_options import spark_options

if TYPE_CHECKING:
    from flowmesh.pipelines.registry import PipelineRun


@click.group()
def pipeline() -> None:
    """Streams into streams, files and tables: with SQL in a YAML file, or with Python.

    A file says where rows come from, what happens to them, and where they go. Runs are remembered: how far they came,
    how much waits, and what went wrong. Needs the extra 'flowmesh[spark]'.

    \b
    Example:
      flowmesh pipeline run revenue.yaml --once
      flowmesh pipeline list
    """


@pipeline.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--once", is_flag=True, help="End with what is there now; without it, go on until Ctrl-C.")
@click.option("--check", is_flag=True, help="Only read the file, and say what is wrong with it.")
@click.option("--name", help="Under which the run is listed.  [default: as the file says, or its own name]")
@spark_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each thing that happens.")
@connected
def run(
    asked: Asked,
    file: Path,
    once: bool,
    check: bool,
    name: str | None,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run the pipeline of FILE: YAML, Python, or the YAML of a declarative pipeline of Spark.

    A run that was ended by Ctrl-C, by SIGTERM or by an error goes on where it was when it is started again, and what
    its queries write to streams and files is there exactly once. A batch, whose sources have an end, is written anew
    by each run. A second Ctrl-C ends it at once.

    \b
    Example:
      flowmesh pipeline run revenue.yaml
      flowmesh pipeline run revenue.yaml --once --json
      flowmesh pipeline run clean.py --master spark://host:7077
      flowmesh pipeline run spark-pipeline.yml
    """
    from flowmesh.cli.pipeline_run import opened, run_opened

    found = opened(file, name)
    if check:
        click.echo(f"{file}: {found.kind} pipeline {found.name!r} is well formed")
        return
    run_opened(found, asked, once=once, master=master, conf=conf, as_json=as_json)


def complete_pipeline(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The pipelines that were run on this machine."""
    from flowmesh.pipelines.registry import Registry, state_directory

    try:
        found = Registry(state_directory(os.environ)).runs()
    except Exception:  # noqa: BLE001 (whatever it is, nobody wants to see it between two keys)
        return []
    return sorted({each.name for each in found if each.name.startswith(incomplete)})


@pipeline.command("list")
@click.argument("name", required=False, shell_complete=complete_pipeline)
@click.option("--all", "all_runs", is_flag=True, help="Every run that is remembered, and not only the last ones.")
@json_option
def list_runs(name: str | None, all_runs: bool, as_json: bool) -> None:
    """Show the last run of each pipeline: its state, its rows, its lag and its last error.

    Runs of this machine and this user are remembered, in the directory that FLOWMESH_STATE names.

    \b
    Example:
      flowmesh pipeline list
      flowmesh pipeline list revenue --all
    """
    import msgspec

    from flowmesh.cli.tables import aligned
    from flowmesh.pipelines.registry import Registry, state_directory

    found = Registry(state_directory(os.environ)).runs(name)
    if not all_runs:
        newest: dict[str, PipelineRun] = {}
        for each in found:
            newest.setdefault(each.name, each)
        found = list(newest.values())
    if as_json:
        runs = [{**msgspec.to_builtins(each), "lag": each.lag} for each in found]
        click.echo(json.dumps({"runs": runs}))
        return
    if not found:
        click.echo("no pipeline was run here yet" if name is None else f"no run of {name!r} is remembered", err=True)
        return
    titles = ("pipeline", "state", "pid", "started", "batch", "rows in", "rows out", "rows/s", "lag")
    click.echo("\n".join(aligned(titles, [_cells(each) for each in found])))
    for each in found:
        if each.error is not None:
            click.echo(f"{each.name}, {each.started}: {each.error}")


def _cells(run: PipelineRun) -> tuple[object, ...]:
    batches = [each.batch for each in run.queries if each.batch is not None]
    rate = sum(each.rows_per_second for each in run.queries) if run.state == "running" else None
    return (
        run.name,
        run.state,
        str(run.pid),
        run.started[:19] + "Z",
        max(batches, default="-"),
        sum(each.rows_in for each in run.queries),
        sum(each.rows_out for each in run.queries),
        "-" if rate is None else round(rate),
        "-" if run.lag is None else run.lag,
    )
