"""`flowmesh tenant`: for the operator of a node."""

from __future__ import annotations

import json

import click

from flowmesh.cli.connection_options import Asked, connected
from flowmesh.cli.parameters import json_option


@click.group()
def tenant() -> None:
    """Create, list and delete tenants. Needs a token for all tenants.

    \b
    Example:
      flowmesh tenant create acme
      flowmesh token create --tenant acme --permission admin
    """


@tenant.command()
@click.argument("name")
@json_option
@connected
def create(asked: Asked, name: str, as_json: bool) -> None:
    """Create the tenant NAME.

    \b
    Example:
      flowmesh tenant create acme
    """
    from flowmesh.cli.talking import talking

    with talking(asked) as node:
        made = node.wait(node.client.create_tenant(name))
    click.echo(json.dumps({"tenant": made.tenant, "created": made.created}) if as_json else f"tenant '{name}' is made")


@tenant.command("list")
@json_option
@connected
def list_tenants(asked: Asked, as_json: bool) -> None:
    """List the tenants that your token sees.

    \b
    Example:
      flowmesh tenant list --json
    """
    from flowmesh.cli.tables import aligned
    from flowmesh.cli.talking import talking

    with talking(asked) as node:
        found = node.wait(node.client.list_tenants())
    if as_json:
        click.echo(json.dumps({"tenants": [{"tenant": each.tenant, "created": each.created} for each in found]}))
    else:
        click.echo("\n".join(aligned(("tenant", "created"), [(each.tenant, each.created) for each in found])))


@tenant.command()
@click.argument("name")
@connected
def delete(asked: Asked, name: str) -> None:
    """Delete the tenant NAME, which must have no streams left, and all its tokens.

    \b
    Example:
      flowmesh tenant delete acme
    """
    from flowmesh.cli.talking import talking

    with talking(asked) as node:
        node.wait(node.client.delete_tenant(name))
    click.echo(f"tenant '{name}' and its tokens are deleted")
