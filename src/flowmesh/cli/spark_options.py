"""Options of every command that is a Spark job, and the session that they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds `--master` and `--conf`."""
    option = click.option(
        "--master", metavar="URL", help="Which Spark: local[4], spark://host:7077, …  [default: local[*]]"
    )
    conf = click.option(
        "--conf", "conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark; may be given several times."
    )
    return option(conf(function))


@contextmanager
def session_for(name: str, master: str | None, conf: tuple[str, ...]) -> Iterator[SparkSession]:
    """One that runs in this process already is used, and left running."""
    from flowmesh.spark.sessions import session

    settings: dict[str, str] = {}
    for setting in conf:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{setting!r} is no setting. Write NAME=VALUE.", param_hint="'--conf'")
        settings[key.strip()] = value
    is_own = not _is_running()
    found = session(master, app_name=name, conf=settings)
    try:
        yield found
    finally:
        if is_own:
            found.stop()


def _is_running() -> bool:
    import sys

    context = sys.modules.get("pyspark")
    return context is not None and context.SparkContext._active_spark_context is not None


class SparkBar:
    """`Progress` of a job, on standard error when that is a terminal."""

    def __init__(self, bar: Any, task: Any) -> None:
        self._bar = bar
        self._task = task

    def expect(self, size_bytes: int) -> None:
        if self._bar is not None:
            self._bar.update(self._task, total=(self._bar.tasks[0].total or 0) + size_bytes)

    def advance(self, size_bytes: int) -> None:
        if self._bar is not None:
            self._bar.update(self._task, advance=size_bytes)


@contextmanager
def job_bar(label: str) -> Iterator[SparkBar]:
    import sys

    if not sys.stderr.isatty():
        yield SparkBar(None, None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True))
    with Progress(
        *columns, TransferSpeedColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        yield SparkBar(bar, bar.add_task(label, total=0))
