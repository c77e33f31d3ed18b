"""`flowmesh login`: tries a token on a node, and keeps both under a name."""

from __future__ import annotations

import click

from flowmesh.cli.connection_options import Asked


@click.command()
@click.option("--url", envvar="FLOWMESH_URL", default="flowmesh://127.0.0.1:7401", show_default=True, help="The node.")
@click.option("--token", envvar="FLOWMESH_TOKEN", help="The token; '-' reads it from standard input.")
@click.option("--token-file", envvar="FLOWMESH_TOKEN_FILE", metavar="FILE", help="The file that holds the token.")
@click.option(
    "--ca-file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="Authorities to trust instead of the system's, as PEM.",
)
@click.option("--name", default="default", show_default=True, help="The name of the context.")
@click.option("--tenant", default="default", show_default=True, help="The tenant that a bare stream name means.")
@click.option("--namespace", default="default", show_default=True, help="The namespace that a bare name means.")
def login(
    url: str, token: str | None, token_file: str | None, ca_file: str | None, name: str, tenant: str, namespace: str
) -> None:
    """Log in to a node, and use it from now on.

    The token is asked for when it is not given. It is tried on the node first, and then kept in
    ~/.config/flowmesh/contexts.yaml, which only you can read. The first token of a node is in its data directory.

    \b
    Example:
      flowmesh login --token-file flowmesh-data/admin.token
      flowmesh login --url flowmeshs://mesh.example.org:7401 --name production
      pass show mesh | flowmesh login --token -
    """
    from flowmesh.base.names import checked_name
    from flowmesh.cli import contexts, targets
    from flowmesh.cli.talking import talking_to

    for field, given in (("name", name), ("tenant", tenant), ("namespace", namespace)):
        checked_name(given, field)
    if token is None and token_file is None:
        token = click.prompt("Token", hide_input=True, err=True)
    found = targets.given_token(Asked(token=token, token_file=token_file))
    assert found is not None
    context = contexts.NodeContext(url, found, ca_file, tenant, namespace)
    with talking_to(context):
        pass  # connecting proves the token
    known = contexts.load()
    known.contexts[name] = context
    known.current = name
    click.echo(f"logged in to {url} as context '{name}', kept in {contexts.save(known)}")
