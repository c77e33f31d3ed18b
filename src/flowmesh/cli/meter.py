"""Progress for people who wait: on standard error, and only when that is a terminal. Nothing is printed otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]
"""Told how much more has been done."""


def _unseen(_amount: int) -> None:
    """Nobody looks."""


@contextmanager
def counting(label: str) -> Iterator[Advance]:
    """How many records, and how many each second, when nobody knows how many there will be."""
    if not sys.stderr.isatty():
        yield _unseen
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    rate = TextColumn("{task.completed:,.0f} records, {task.fields[rate]:,.0f}/s")
    columns = (SpinnerColumn(), TextColumn("{task.description}"), rate, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None, rate=0)

        def advance(amount: int) -> None:
            row = progress.tasks[0]
            progress.update(task, advance=amount, rate=row.completed / max(row.elapsed or 0.0, 0.001))

        yield advance


@contextmanager
def measuring(label: str, size_bytes: int) -> Iterator[Advance]:
    """A bar of bytes towards a known end."""
    if not sys.stderr.isatty():
        yield _unseen
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True))
    speed = (TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, *speed, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=size_bytes)

        def advance(amount: int) -> None:
            progress.update(task, advance=amount)

        yield advance
