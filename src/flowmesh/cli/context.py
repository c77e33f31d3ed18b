"""`flowmesh context`: the nodes that were logged in to."""

from __future__ import annotations

import json

import click

from flowmesh.cli.parameters import json_option


@click.group()
def context() -> None:
    """The nodes you logged in to: list them, choose one, forget one.

    \b
    Example:
      flowmesh context list
      flowmesh context use production
      FLOWMESH_CONTEXT=production flowmesh stream list
    """


@context.command("list")
@json_option
def list_contexts(as_json: bool) -> None:
    """List the contexts; a star marks the one in use. Tokens are not shown.

    \b
    Example:
      flowmesh context list --json
    """
    from flowmesh.cli import contexts
    from flowmesh.cli.tables import aligned

    known = contexts.load()
    rows = [
        {"name": name, "current": name == known.current, "url": found.url, "tenant": found.tenant,
         "namespace": found.namespace, "token": found.token.partition(".")[0]}
        for name, found in sorted(known.contexts.items())
    ]  # fmt: skip
    if as_json:
        click.echo(json.dumps({"contexts": rows}))
        return
    cells = [
        ("*" if row["current"] else "", row["name"], row["url"], f"{row['tenant']}/{row['namespace']}", row["token"])
        for row in rows
    ]
    click.echo("\n".join(aligned(("", "name", "url", "namespace", "token id"), cells)))


@context.command()
@click.argument("name")
def use(name: str) -> None:
    """Use the context NAME from now on.

    \b
    Example:
      flowmesh context use production
    """
    from flowmesh.cli import contexts

    known = contexts.load()
    found = known.find(name)
    known.current = name
    contexts.save(known)
    click.echo(f"using {found.url} as context '{name}'")


@context.command()
@click.argument("name")
def remove(name: str) -> None:
    """Forget the context NAME and its token. The token itself goes on being good until it is revoked.

    \b
    Example:
      flowmesh context remove production
    """
    from flowmesh.cli import contexts

    known = contexts.load()
    known.find(name)
    del known.contexts[name]
    if known.current == name:
        known.current = None
    contexts.save(known)
    click.echo(f"context '{name}' is forgotten")
