"""The command `flowmesh` itself, and the script that completes it in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from flowmesh.base.version import VERSION
from flowmesh.cli.archive import archive
from flowmesh.cli.context import context
from flowmesh.cli.group import FriendlyGroup
from flowmesh.cli.groups import group
from flowmesh.cli.log import log
from flowmesh.cli.login import login
from flowmesh.cli.node import node
from flowmesh.cli.pipeline import pipeline
from flowmesh.cli.serve import serve
from flowmesh.cli.stream import stream
from flowmesh.cli.tenant import tenant
from flowmesh.cli.token import token
from flowmesh.cli.verify import verify

PROGRAM = "flowmesh"
COMPLETE_VARIABLE = "_FLOWMESH_COMPLETE"


@click.group(cls=FriendlyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name=PROGRAM, message="%(prog)s %(version)s")
def flowmesh() -> None:
    """Events, jobs, state and live hand-offs on one hash-chained log.

    \b
    Example:
      flowmesh serve
      flowmesh stream create numbers
      seq 1 1000 | flowmesh stream append numbers
      flowmesh stream read numbers --from 990
    \b
    A log in a directory needs no server:
      seq 1 1000 | flowmesh log append numbers
      flowmesh log verify numbers
    """


@flowmesh.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands and options in SHELL.

    \b
    Example:
      flowmesh completion bash > ~/.local/share/bash-completion/completions/flowmesh
      eval "$(flowmesh completion zsh)"
      flowmesh completion fish > ~/.config/fish/completions/flowmesh.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(flowmesh, {}, PROGRAM, COMPLETE_VARIABLE).source())


for command in (log, serve, login, context, stream, group, token, tenant, node, archive, pipeline, verify):
    flowmesh.add_command(command)


def main() -> None:
    flowmesh(prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE)
