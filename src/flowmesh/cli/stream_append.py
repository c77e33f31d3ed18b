"""`flowmesh stream append`: its options, and how its result is told. The work is in `sending`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from flowmesh.cli.connection_options import Asked, connected
from flowmesh.cli.group import EXIT_INTERRUPTED, Refused
from flowmesh.cli.parameters import json_option
from flowmesh.cli.stream_argument import stream_argument
from flowmesh.cli.tables import count_text

if TYPE_CHECKING:
    from flowmesh.cli.sending import SendOutcome


@click.command()
@stream_argument
@click.option("--ndjson", is_flag=True, help="Read one JSON object a line, with key, value, headers and time.")
@click.option("--partition", type=click.IntRange(0), help="The one to append to.  [default: by key, or in turn]")
@click.option(
    "--compression", type=click.Choice(["none", "zstd"]), default="none", show_default=True, help="Of batches."
)
@json_option
@connected
def append(asked: Asked, name: str, ndjson: bool, partition: int | None, compression: str, as_json: bool) -> None:
    """Append the lines of standard input to the stream NAME, one record a line.

    Lines with the same key go to the same partition and keep their order. A batch that has to be sent again after a
    broken connection is stored once. Press Ctrl-C, or Ctrl-D in a terminal, to end.

    \b
    Example:
      seq 1 1000000 | flowmesh stream append numbers
      echo '{"key":"k","value":{"n":1},"headers":{"h":"v"}}' | flowmesh stream append orders --ndjson
      flowmesh log read old --json | flowmesh stream append orders --ndjson
    """
    from flowmesh.cli.sending import send
    from flowmesh.cli.talking import talking

    with talking(asked) as node:
        outcome = send(node, name, sys.stdin.buffer, ndjson=ndjson, partition=partition, compress=compression == "zstd")
    if as_json:
        click.echo(json.dumps(_as_dictionary(outcome)))
    elif outcome.fault is None:
        click.echo(f"{count_text(outcome.records, 'record')}, {promise(outcome.durability)}")
    if outcome.fault is not None:
        raise Refused(f"{outcome.fault}\n{_so_far(outcome)}")
    if outcome.interrupted:
        raise click.exceptions.Exit(EXIT_INTERRUPTED)


def promise(durability: str) -> str:
    if durability.startswith("interval:"):
        milliseconds = durability.partition(":")[2]
        return f"acknowledged after the write; a power cut may take the last {milliseconds} ms of them"
    return f"durable: fsynced before they were acknowledged ({durability})"


def _so_far(outcome: SendOutcome) -> str:
    if not outcome.sound:
        return f"{count_text(outcome.records, 'record')} went out before that; how many were stored is not known."
    return f"{count_text(outcome.records, 'record')} before that: appended, {promise(outcome.durability)}."


def _as_dictionary(outcome: SendOutcome) -> dict[str, object]:
    return {
        "stream": outcome.stream,
        "records": outcome.records,
        "durability": outcome.durability,
        "interrupted": outcome.interrupted,
        "error": None if outcome.fault is None else str(outcome.fault),
    }
