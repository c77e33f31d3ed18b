"""The group `flowmesh stream`: which verbs there are. Each one is declared in a module of its own kind."""

from __future__ import annotations

import click

from flowmesh.cli.stream_admin import alter, create, delete, describe, list_streams
from flowmesh.cli.stream_append import append
from flowmesh.cli.stream_read import read, tail


@click.group()
def stream() -> None:
    """Create, write and read streams on a node.

    A stream is named NAME, or NAMESPACE/NAME, or TENANT/NAMESPACE/NAME.

    \b
    Example:
      flowmesh stream create orders --partitions 4 --retention-age 30d
      seq 1 1000000 | flowmesh stream append orders
      flowmesh stream read orders --from 2026-01-31T12:00:00Z --limit 10
      flowmesh stream tail orders
    """


for verb in (create, list_streams, describe, alter, append, read, tail, delete):
    stream.add_command(verb)
