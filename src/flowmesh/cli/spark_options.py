"""Options of every command that is a Spark job, and the session that they mean."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from flowmesh.base.errors import FlowMeshError

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


_WORDS_BYTES = 4_000


@contextmanager
def session_for(name: str, master: str | None, conf: tuple[str, ...], *, quiet: bool = True) -> Iterator[SparkSession]:
    """One that runs in this process already is used, and left running.

    `quiet` is for work that is all our own: what Java and Spark's workers say on standard error, a warning at each
    start and now and then a traceback at the end, is shown only when they fail.
    """
    from flowmesh.spark.sessions import session

    settings: dict[str, str] = {}
    for setting in conf:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{setting!r} is no setting. Write NAME=VALUE.", param_hint="'--conf'")
        settings[key.strip()] = value
    if _is_running():
        yield session(master, app_name=name, conf=settings)
        return
    with tempfile.TemporaryFile() as words:
        try:
            with _stderr_to(words if quiet else None):
                found = session(master, app_name=name, conf=settings)
        except Exception:
            _show(words)
            raise
        try:
            yield found
        except (FlowMeshError, click.ClickException, click.exceptions.Exit):
            raise
        except Exception:
            _show(words)
            raise
        finally:
            found.stop()


def _show(words: IO[bytes]) -> None:
    words.seek(max(words.seek(0, os.SEEK_END) - _WORDS_BYTES, 0))
    click.echo(words.read(), err=True, nl=False)


@contextmanager
def _stderr_to(file: IO[bytes] | None) -> Iterator[None]:
    """For the programs that are started meanwhile, as long as they live."""
    if file is None:
        yield
        return
    sys.stderr.flush()
    own = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)


def _is_running() -> bool:
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
