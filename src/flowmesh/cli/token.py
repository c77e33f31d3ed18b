"""`flowmesh token`: who may do what on a node."""

from __future__ import annotations

import json

import click

from flowmesh.access.permissions import Permission
from flowmesh.cli.connection_options import Asked, connected
from flowmesh.cli.parameters import duration, json_option

_SECOND_NS = 1_000_000_000


@click.group()
def token() -> None:
    """Create, list, rotate and revoke tokens.

    \b
    Example:
      flowmesh token create --permission stream.read --permission stream.write --namespace shop --expires 90d
      flowmesh token rotate 5jzrgqx2k3m4n5o6 --overlap 1h
      flowmesh token revoke 5jzrgqx2k3m4n5o6
    """


@token.command()
@click.option("--tenant", help="Whose streams it opens; '*' for all.  [default: that of the context]")
@click.option("--namespace", "namespaces", multiple=True, help="Which namespaces; may be repeated.  [default: all]")
@click.option(
    "--permission",
    "permissions",
    multiple=True,
    required=True,
    type=click.Choice([permission.value for permission in Permission]),
    help="What it allows; may be repeated.",
)
@click.option("--expires", type=duration, help="How long it is good, such as 90d.  [default: until it is revoked]")
@click.option("--description", default="", help="What it is for.")
@json_option
@connected
def create(
    asked: Asked,
    tenant: str | None,
    namespaces: tuple[str, ...],
    permissions: tuple[str, ...],
    expires: int | None,
    description: str,
    as_json: bool,
) -> None:
    """Create a token and print it, this once. Only its hash is kept.

    \b
    Example:
      flowmesh token create --permission stream.read --namespace shop --expires 90d
    """
    from flowmesh.cli.talking import talking

    with talking(asked) as node:
        made = node.wait(
            node.client.create_token(
                tenant=tenant or node.context.tenant,
                namespaces=namespaces or ("*",),
                permissions=permissions,
                expires_in_s=_seconds(expires),
                description=description,
            )
        )
    _tell(made.id, made.token, as_json)


@token.command("list")
@click.option("--tenant", help="Only those of this tenant.")
@json_option
@connected
def list_tokens(asked: Asked, tenant: str | None, as_json: bool) -> None:
    """List the tokens that yours may manage, without their secrets.

    \b
    Example:
      flowmesh token list --tenant acme
    """
    import msgspec

    from flowmesh.cli.tables import aligned
    from flowmesh.cli.talking import talking

    with talking(asked) as node:
        found = node.wait(node.client.list_tokens(tenant))
    if as_json:
        click.echo(json.dumps({"tokens": msgspec.to_builtins(found)}))
        return
    rows = [
        (each.id, each.tenant, ",".join(each.namespaces), ",".join(each.permissions), each.expires or "-",
         each.replaced_by or "-", each.description)
        for each in found
    ]  # fmt: skip
    titles = ("id", "tenant", "namespaces", "permissions", "expires", "replaced by", "description")
    click.echo("\n".join(aligned(titles, rows)))


@token.command()
@click.argument("token_id", metavar="ID")
@connected
def revoke(asked: Asked, token_id: str) -> None:
    """End the token ID at once, on open connections as well.

    \b
    Example:
      flowmesh token revoke 5jzrgqx2k3m4n5o6
    """
    from flowmesh.cli.talking import talking

    with talking(asked) as node:
        node.wait(node.client.revoke_token(_id(token_id)))
    click.echo(f"token {_id(token_id)} is revoked")


@token.command()
@click.argument("token_id", metavar="ID")
@click.option("--overlap", type=duration, default="1h", show_default=True, help="How long the old one stays good.")
@json_option
@connected
def rotate(asked: Asked, token_id: str, overlap: int, as_json: bool) -> None:
    """Make a new token with the rights of ID and print it; the old one ends after the overlap.

    \b
    Example:
      flowmesh token rotate 5jzrgqx2k3m4n5o6 --overlap 1h
    """
    from flowmesh.cli.talking import talking

    with talking(asked) as node:
        made = node.wait(node.client.rotate_token(_id(token_id), overlap_s=_seconds(overlap) or 0))
    _tell(made.id, made.token, as_json)


def _id(text: str) -> str:
    """A whole token, given where its id is meant, keeps its secret to itself."""
    return text.partition(".")[0]


def _seconds(length_ns: int | None) -> int | None:
    return None if length_ns is None else -(-length_ns // _SECOND_NS)


def _tell(token_id: str, text: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"id": token_id, "token": text}))
        return
    click.echo(text)
    click.echo(f"This is token {token_id}. It is shown this once: keep it now.", err=True)
