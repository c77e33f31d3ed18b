"""Results for people (a table, plain where there is no terminal) and for programs (JSON)."""

from __future__ import annotations

import json
import os
import platform
import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.harness import Result

_PLAIN_WIDTH = 200
_STYLES = {"ok": "green", "below": "bold red"}
HEADINGS = ("work", "against", "measured", "reference", "ratio", "range", "at least", "verdict", "runs")


def cells(result: Result) -> tuple[str, ...]:
    row, samples, ratios = result.row, result.samples, result.ratios
    return (
        row.work,
        row.against,
        result.shown(samples.subject),
        result.shown(samples.reference),
        f"{result.ratio:.2f}",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        row.bound,
        result.verdict,
        str(len(ratios)),
    )


def show(results: list[Result]) -> None:
    console = Console() if sys.stdout.isatty() else Console(width=_PLAIN_WIDTH, color_system=None)
    table = Table(title=f"FlowMesh, {machine()}")
    for heading in HEADINGS:
        figures = heading in ("measured", "reference", "ratio", "range", "at least", "runs")
        table.add_column(heading, justify="right" if figures else "left", no_wrap=figures)
    for result in results:
        *first, verdict, runs = cells(result)
        table.add_row(*map(Text, first), Text(verdict, style=_STYLES.get(verdict, "")), Text(runs))
    console.print(table)
    for result in results:
        if result.note:
            console.print(Text(f"{result.row.work}: {result.note}"))
    console.print(Text("A ratio above 1 is better than the reference beside it. Medians of rounds; one warm-up each."))


def show_json(results: list[Result]) -> None:
    print(json.dumps({"machine": machine(), "results": [result.document() for result in results]}, indent=2))


def machine() -> str:
    """What the figures depend on; a load above the number of cores means that others were at work too."""
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {system}, load {os.getloadavg()[0]:.1f}"
