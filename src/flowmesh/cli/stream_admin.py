"""`flowmesh stream create|list|describe|alter|delete`: their options, and how a stream is described."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from flowmesh.base import limits
from flowmesh.base.durability import Durability
from flowmesh.cli.connection_options import Asked, connected
from flowmesh.cli.parameters import duration, json_option, policy, size
from flowmesh.cli.stream_argument import stream_argument

if TYPE_CHECKING:
    from flowmesh.operations.messages import StreamDescription

_MILLISECOND_NS = 1_000_000
UNLIMITED = "none"


def _length(text: str) -> int | None:
    return None if text == UNLIMITED else duration(text) // _MILLISECOND_NS


def _bytes(text: str) -> int | None:
    return None if text == UNLIMITED else size(text)


def settings_options(command: Callable[..., None]) -> Callable[..., None]:
    """What can be chosen when a stream is made, and changed later."""
    for option in (
        click.option("--durability", type=policy, help="always, batch or interval:<ms>."),
        click.option("--segment-age", metavar="DURATION", help="Age at which a segment closes."),
        click.option("--segment-bytes", metavar="SIZE", help="Size of a segment."),
        click.option("--retention-bytes", metavar="SIZE", help="Keep so much of each partition; 'none' for all."),
        click.option("--retention-age", metavar="DURATION", help="Keep records so long, such as 30d; 'none' for ever."),
    ):
        command = option(command)
    return command


def chosen(
    retention_age: str | None,
    retention_bytes: str | None,
    segment_bytes: str | None,
    segment_age: str | None,
    durability: Durability | None,
) -> dict[str, Any]:
    """Only what was given, under the names of the wire."""
    given: dict[str, Any] = {}
    for name, text, convert in (
        ("retention_age_ms", retention_age, _length),
        ("retention_bytes", retention_bytes, _bytes),
        ("segment_bytes", segment_bytes, _bytes),
        ("segment_age_ms", segment_age, _length),
    ):
        if text is not None:
            given[name] = convert(text)
    if durability is not None:
        given["durability"] = str(durability)
    return given


@click.command()
@stream_argument
@click.option(
    "--partitions", type=click.IntRange(1, limits.PARTITIONS_MAX), default=1, show_default=True, help="How many."
)
@settings_options
@json_option
@connected
def create(asked: Asked, name: str, partitions: int, as_json: bool, **settings: Any) -> None:
    """Create the stream NAME.

    \b
    Example:
      flowmesh stream create orders --partitions 4 --retention-age 30d --durability always
    """
    from flowmesh.cli.talking import talking

    wanted = chosen(**settings)
    with talking(asked) as node:
        tenant, namespace, bare = node.path(name)
        made = node.wait(
            node.client.create_stream(bare, namespace=namespace, tenant=tenant, partitions=partitions, **wanted)
        )
        described = node.wait(made.describe())
    _tell(described, as_json)


@click.command("list")
@click.option("--tenant", help="Which tenant.  [default: that of the context]")
@click.option("--namespace", help="Which namespace.  [default: that of the context]")
@json_option
@connected
def list_streams(asked: Asked, tenant: str | None, namespace: str | None, as_json: bool) -> None:
    """List the streams of a namespace.

    \b
    Example:
      flowmesh stream list --namespace shop
    """
    from flowmesh.cli.talking import talking

    with talking(asked) as node:
        tenant, namespace = tenant or node.context.tenant, namespace or node.context.namespace
        names = node.wait(node.client.list_streams(namespace=namespace, tenant=tenant))
    if as_json:
        click.echo(json.dumps({"tenant": tenant, "namespace": namespace, "streams": names}))
    elif names:
        click.echo("\n".join(names))
    else:
        click.echo(f"there are no streams in {tenant}/{namespace}", err=True)


@click.command()
@stream_argument
@json_option
@connected
def describe(asked: Asked, name: str, as_json: bool) -> None:
    """Describe the stream NAME and its partitions.

    \b
    Example:
      flowmesh stream describe orders
    """
    from flowmesh.cli.talking import talking

    with talking(asked) as node:
        described = node.wait(node.stream(name).describe())
    _tell(described, as_json)


@click.command()
@stream_argument
@settings_options
@json_option
@connected
def alter(asked: Asked, name: str, as_json: bool, **settings: Any) -> None:
    """Change how the stream NAME is kept. What is not named stays as it is.

    \b
    Example:
      flowmesh stream alter orders --retention-age none --retention-bytes 10GiB
    """
    from flowmesh.cli.talking import talking

    wanted = chosen(**settings)
    if not wanted:
        raise click.UsageError("say what to change: --retention-age, --retention-bytes, --durability, …")
    with talking(asked) as node:
        described = node.wait(node.stream(name).alter(**wanted))
    _tell(described, as_json)


@click.command()
@stream_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@connected
def delete(asked: Asked, name: str, yes: bool) -> None:
    """Delete the stream NAME and all its records. Its space is freed; there is no way back.

    \b
    Example:
      flowmesh stream delete orders
    """
    from flowmesh.cli.talking import talking

    with talking(asked) as node:
        path = node.path(name)
        if not yes:
            click.confirm(f"Delete {path} and all its records?", abort=True, err=True)
        node.wait(node.stream(name).delete())
    click.echo(f"stream '{path}' is deleted")


def _tell(described: StreamDescription, as_json: bool) -> None:
    import msgspec

    from flowmesh.cli.tables import aligned, length_text, offsets_text, size_text

    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(described)))
        return
    path = f"{described.tenant}/{described.namespace}/{described.name}"
    click.echo(f"stream {path}, id {described.id}, made {described.created}, durability {described.durability}")
    for title, value in (
        ("retention age", None if described.retention_age_ms is None else length_text(described.retention_age_ms)),
        ("retention size", None if described.retention_bytes is None else size_text(described.retention_bytes)),
        ("segment size", None if described.segment_bytes is None else size_text(described.segment_bytes)),
        ("segment age", None if described.segment_age_ms is None else length_text(described.segment_age_ms)),
    ):
        if value is not None:
            click.echo(f"{title:14} {value}")
    rows = [
        (each.partition, offsets_text(each.start_offset, each.end_offset), each.end_offset - each.start_offset,
         each.size_bytes, each.segments, "; ".join(each.damaged) or each.failure or "sound")
        for each in described.partitions
    ]  # fmt: skip
    click.echo("\n".join(aligned(("partition", "offsets", "records", "bytes", "segments", "state"), rows)))
