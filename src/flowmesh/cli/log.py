"""The group `flowmesh log`: which verbs there are. Each one is declared in a module of its own."""

from __future__ import annotations

import click

from flowmesh.cli.log_append import append
from flowmesh.cli.log_checkpoint import checkpoint
from flowmesh.cli.log_inspect import inspect
from flowmesh.cli.log_read import read
from flowmesh.cli.log_verify import verify


@click.group()
def log() -> None:
    """Write, read and check a log in a directory, without a server.

    \b
    Example:
      printf 'one\\ntwo\\n' | flowmesh log append events
      flowmesh log read events --json
      flowmesh log inspect events
    """


for verb in (append, read, inspect, verify, checkpoint):
    log.add_command(verb)
