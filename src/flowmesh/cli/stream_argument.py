"""The argument NAME of stream commands, and its completion: the names that the node knows."""

from __future__ import annotations

import click

COMPLETION_TIMEOUT_S = 1.0


def complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names in the namespace of the context, or nothing when the node does not answer at once."""
    from flowmesh.cli.connection_options import Asked
    from flowmesh.cli.talking import talking

    asked = Asked(**{name: ctx.params.get(name) for name in Asked._fields})
    try:
        with talking(asked, COMPLETION_TIMEOUT_S) as node:
            context = node.context
            names = node.wait(node.client.list_streams(namespace=context.namespace, tenant=context.tenant))
    except Exception:  # noqa: BLE001 (whatever it is, nobody wants to see it between two keys)
        return []
    return [name for name in names if name.startswith(incomplete)]


stream_argument = click.argument("name", metavar="NAME", shell_complete=complete)
