"""`flowmesh node`: the node itself."""

from __future__ import annotations

import json

import click

from flowmesh.cli.connection_options import Asked, connected
from flowmesh.cli.parameters import json_option


@click.group()
def node() -> None:
    """Ask a node about itself.

    \b
    Example:
      flowmesh node describe
    """


@node.command()
@json_option
@connected
def describe(asked: Asked, as_json: bool) -> None:
    """Say which node this is and how it is doing.

    \b
    Example:
      flowmesh node describe --json
    """
    import msgspec

    from flowmesh.cli.tables import size_text
    from flowmesh.cli.talking import talking

    with talking(asked) as conversation:
        found = conversation.wait(conversation.client.describe_node())
        url = conversation.context.url
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(found)))
        return
    click.echo(f"node      {found.id} at {url}")
    click.echo(f"version   {found.version}, started {found.started}")
    click.echo(f"streams   {found.streams:,} in {found.tenants:,} tenants")
    click.echo(f"disk      {size_text(found.disk_free_bytes)} free")
