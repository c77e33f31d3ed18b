"""`flowmesh log read`: its options, and how a record is shown."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from flowmesh.cli.group import Refused, complain
from flowmesh.cli.parameters import Start, directory_argument, existing, place
from flowmesh.cli.showing import show
from flowmesh.cli.tables import count_text


@click.command()
@directory_argument
@click.option(
    "--from",
    "start",
    type=place,
    default="earliest",
    show_default=True,
    help="earliest, latest, an offset, or a time such as 2026-01-31T12:00:00Z (no zone means UTC).",
)
@click.option("--limit", type=click.IntRange(0), help="Stop after so many records.")
@click.option("--follow", "-f", is_flag=True, help="At the end, wait for more. Ctrl-C ends it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; 'log append --ndjson' takes it back.")
@click.option("--verbose", "-v", is_flag=True, help="Put offset, time and key before each value.")
@click.option("--skip-damaged", is_flag=True, help="Go on after a damaged range; the exit code is then 1.")
def read(
    directory: Path, start: Start, limit: int | None, follow: bool, as_json: bool, verbose: bool, skip_damaged: bool
) -> None:
    """Print the records of the log in DIR, one value a line. What is printed is durable.

    The log may be written to by another process meanwhile. A record without a value is an empty line; with --json it
    is null, and bytes that are not UTF-8 are {"base64": "…"}. A damaged range is never printed: reading stops there
    and names it, or goes on behind it with --skip-damaged.

    \b
    Example:
      flowmesh log read events --from latest --follow
      flowmesh log read events --from 2026-01-31T12:00:00Z --limit 10 --verbose
      flowmesh log read events --json | jq -r .key
    """
    from flowmesh.cli.reading import Reading, cut

    if as_json and verbose:
        raise click.UsageError("--json shows offset, time and key already; leave --verbose out.")
    reading = Reading(existing(directory), start, follow=follow, skip_damaged=skip_damaged, tell=complain)
    out, left = sys.stdout.buffer, limit
    if left != 0:
        for first, columns in reading.columns():
            low, high = cut(columns, first, left)
            show(out, columns, low, high, as_json=as_json, verbose=verbose)
            if follow:
                out.flush()
            left = None if left is None else left - (high - low)
            if left == 0:
                break
    out.flush()
    if reading.skipped:
        raise Refused(f"{count_text(reading.skipped, 'damaged range was', 'damaged ranges were')} skipped.")
