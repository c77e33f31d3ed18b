"""`flowmesh log append`: its options, and how its result is told."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowmesh.base import limits
from flowmesh.base.durability import BATCH, Durability
from flowmesh.cli.group import EXIT_INTERRUPTED, Refused
from flowmesh.cli.parameters import directory_argument, duration, policy, size
from flowmesh.cli.tables import count_text, offsets_text

if TYPE_CHECKING:
    from flowmesh.cli.appending import AppendOutcome

BATCH_RECORDS_DEFAULT = 10_000
LINGER_MS_DEFAULT = 20


@click.command()
@directory_argument
@click.option("--ndjson", is_flag=True, help="Read one JSON object a line, with key, value, headers and time.")
@click.option("--name", help="Name of the chain of a new log.  [default: the name of DIR]")
@click.option(
    "--durability", type=policy, default=str(BATCH), show_default=True, help="always, batch or interval:<ms>."
)
@click.option(
    "--compression", type=click.Choice(["none", "zstd"]), default="none", show_default=True, help="Of blocks."
)
@click.option(
    "--batch-records",
    type=click.IntRange(1, limits.BATCH_RECORDS_MAX),
    default=BATCH_RECORDS_DEFAULT,
    show_default=True,
    help="The most records in one block.",
)
@click.option(
    "--linger",
    "linger_ms",
    type=click.IntRange(0, 60_000),
    default=LINGER_MS_DEFAULT,
    show_default=True,
    metavar="MS",
    help="How long a batch that is not full waits for more lines.",
)
@click.option("--segment-bytes", type=size, default="256MiB", show_default=True, help="Size of a segment.")
@click.option(
    "--segment-records",
    type=click.IntRange(1),
    default=limits.SEGMENT_RECORDS_DEFAULT,
    show_default=True,
    help="Records in a segment.",
)
@click.option("--segment-age", type=duration, default="7d", show_default=True, help="Age at which a segment closes.")
@click.option("--retention-bytes", type=size, help="At the end, remove old segments beyond this size.")
@click.option("--retention-age", type=duration, help="At the end, remove segments older than this.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def append(directory: Path, ndjson: bool, as_json: bool, **settings: Any) -> None:
    """Append the lines of standard input to the log in DIR, one record a line.

    A log that is not there yet is created. The last line of output says which offsets the records got and what
    that promises. Press Ctrl-C, or Ctrl-D in a terminal, to end: what was read until then is appended.

    \b
    Example:
      seq 1 1000000 | flowmesh log append numbers
      flowmesh log append events --durability interval:200 --compression zstd < events.txt
      echo '{"key":"k","value":{"n":1},"headers":{"h":"v"}}' | flowmesh log append events --ndjson
    """
    from flowmesh.cli.appending import append_stream, plan

    outcome = append_stream(plan(directory, ndjson, **settings), sys.stdin.buffer)
    if as_json:
        click.echo(json.dumps(_as_dictionary(directory, outcome)))
    elif outcome.fault is None:
        click.echo(_as_text(outcome))
    if outcome.fault is not None:
        raise Refused(f"{outcome.fault}\n{_so_far(outcome)}")
    if outcome.interrupted:
        raise click.exceptions.Exit(EXIT_INTERRUPTED)


def promise(durability: Durability) -> str:
    if durability.acks_after_sync:
        each = "each batch by an fsync of its own" if str(durability) == "always" else "by a group commit"
        return f"durable: fsynced before they were acknowledged, {each}"
    return (
        f"durable now: fsynced at the end; while appending, a power cut could have taken the last"
        f" {durability.loss_window_ms} ms of acknowledged records"
    )


def _as_text(outcome: AppendOutcome) -> str:
    if not outcome.records:
        return f"no records; the log ends at offset {outcome.durable_end}"
    trimmed = f"; {count_text(outcome.trimmed, 'old segment')} removed" if outcome.trimmed else ""
    offsets = offsets_text(outcome.base_offset, outcome.durable_end)
    return f"{count_text(outcome.records, 'record')}, offsets {offsets}, {promise(outcome.durability)}{trimmed}"


def _so_far(outcome: AppendOutcome) -> str:
    if not outcome.records:
        return "No record of this input was appended."
    offsets = offsets_text(outcome.base_offset, outcome.durable_end)
    return f"{count_text(outcome.records, 'record')} before that: appended and durable, offsets {offsets}."


def _as_dictionary(directory: Path, outcome: AppendOutcome) -> dict[str, Any]:
    return {
        "directory": str(directory),
        "name": outcome.name,
        "records": outcome.records,
        "base_offset": outcome.base_offset,
        "end_offset": outcome.durable_end,
        "durability": str(outcome.durability),
        "loss_window_ms": outcome.durability.loss_window_ms,
        "trimmed_segments": outcome.trimmed,
        "recovered": list(outcome.recovered),
        "interrupted": outcome.interrupted,
        "error": str(outcome.fault) if outcome.fault is not None else None,
    }
