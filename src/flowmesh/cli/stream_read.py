"""`flowmesh stream read` and `tail`: their options. The work is in `receiving`."""

from __future__ import annotations

import sys

import click

from flowmesh.cli.connection_options import Asked, connected
from flowmesh.cli.parameters import Start, place
from flowmesh.cli.stream_argument import stream_argument

_partition_option = click.option(
    "--partition", "partitions", type=click.IntRange(0), multiple=True, help="May be repeated.  [default: all]"
)
_limit_option = click.option("--limit", type=click.IntRange(0), help="Stop after so many records.")
_json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line; 'stream append --ndjson' takes it back."
)
_verbose_option = click.option("--verbose", "-v", is_flag=True, help="Put offset, time and key before each value.")


@click.command()
@stream_argument
@click.option(
    "--from",
    "start",
    type=place,
    default="earliest",
    show_default=True,
    help="earliest, latest, an offset, or a time such as 2026-01-31T12:00:00Z (no zone means UTC).",
)
@_partition_option
@_limit_option
@click.option("--follow", "-f", is_flag=True, help="At the end, wait for more. Ctrl-C ends it.")
@_json_option
@_verbose_option
@connected
def read(
    asked: Asked,
    name: str,
    start: Start,
    partitions: tuple[int, ...],
    limit: int | None,
    follow: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Print the records of the stream NAME, one value a line. What is printed is durable.

    Records of one partition come in order; partitions come in any order beside each other.

    \b
    Example:
      flowmesh stream read orders --from 2026-01-31T12:00:00Z --limit 10 --verbose
      flowmesh stream read orders --partition 2 --from 4711 --json | jq -r .key
    """
    _print(asked, name, start, partitions, limit, follow=follow, as_json=as_json, verbose=verbose)


@click.command()
@stream_argument
@_partition_option
@_limit_option
@_json_option
@_verbose_option
@connected
def tail(asked: Asked, name: str, partitions: tuple[int, ...], limit: int | None, as_json: bool, verbose: bool) -> None:
    """Print what is appended to the stream NAME from now on. Ctrl-C ends it.

    \b
    Example:
      flowmesh stream tail orders --json | jq -r .value
    """
    _print(asked, name, Start("latest"), partitions, limit, follow=True, as_json=as_json, verbose=verbose)


def _print(
    asked: Asked,
    name: str,
    start: Start,
    partitions: tuple[int, ...],
    limit: int | None,
    *,
    follow: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    from flowmesh.cli.receiving import receive
    from flowmesh.cli.talking import talking

    if as_json and verbose:
        raise click.UsageError("--json shows offset, time and key already; leave --verbose out.")
    with talking(asked) as node:
        receive(
            node,
            name,
            sys.stdout.buffer,
            start,
            partitions=partitions or None,
            limit=limit,
            follow=follow,
            as_json=as_json,
            verbose=verbose,
        )
