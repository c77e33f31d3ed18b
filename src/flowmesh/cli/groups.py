"""`flowmesh group list|describe|commit|delete`: who reads a stream, how far behind they are, what is held for them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click

from flowmesh.base.errors import NotFound
from flowmesh.cli.connection_options import Asked, connected
from flowmesh.cli.parameters import NUMBER_MAX, Start, duration, json_option, place
from flowmesh.cli.stream_argument import COMPLETION_TIMEOUT_S, stream_argument

if TYPE_CHECKING:
    from flowmesh.cli.talking import Conversation
    from flowmesh.client import StreamHandle
    from flowmesh.operations.messages import GroupDescription

_SECOND_NS = 1_000_000_000
_POSITION = re.compile(r"([0-9]{1,4}):([0-9]{1,19})", re.ASCII)
NOTHING = "none"


def complete_group(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The groups of the stream that was named before, or nothing when the node does not answer at once."""
    from flowmesh.cli.talking import talking

    asked = Asked(**{name: ctx.params.get(name) for name in Asked._fields})
    try:
        with talking(asked, COMPLETION_TIMEOUT_S) as node:
            found = node.wait(node.stream(ctx.params["name"]).groups())
    except Exception:  # noqa: BLE001 (whatever it is, nobody wants to see it between two keys)
        return []
    return [each.group for each in found if each.group.startswith(incomplete)]


group_argument = click.argument("group_name", metavar="GROUP", shell_complete=complete_group)


@click.group()
def group() -> None:
    """See and set how far the readers of a stream have come.

    A group is a name under which a reader commits its positions: a consumer, a Spark query, an archive. It may hold
    back retention until it has read. Streams are named as in 'flowmesh stream'.

    \b
    Example:
      flowmesh group list orders
      flowmesh group describe orders billing
      flowmesh group commit orders billing --to 2026-01-31T12:00:00Z
    """


@group.command("list")
@stream_argument
@json_option
@connected
def list_groups(asked: Asked, name: str, as_json: bool) -> None:
    """List the groups of the stream NAME.

    \b
    Example:
      flowmesh group list orders
    """
    import msgspec

    from flowmesh.cli.tables import aligned
    from flowmesh.cli.talking import talking

    with talking(asked) as node:
        path, found = node.path(name), node.wait(node.stream(name).groups())
    if as_json:
        click.echo(json.dumps({"groups": msgspec.to_builtins(found)}))
    elif found:
        rows = [(each.group, each.kind, each.lag, _hold_text(each), each.updated) for each in found]
        click.echo("\n".join(aligned(("group", "kind", "lag", "hold", "last commit"), rows)))
    else:
        click.echo(f"stream {path} has no groups", err=True)


@group.command()
@stream_argument
@group_argument
@json_option
@connected
def describe(asked: Asked, name: str, group_name: str, as_json: bool) -> None:
    """Show the positions of a group of the stream NAME, its lag and its hold.

    \b
    Example:
      flowmesh group describe orders billing
    """
    from flowmesh.cli.talking import talking

    with talking(asked) as node:
        found = node.wait(node.stream(name).group(group_name))
    _tell(found, as_json)


def _position(text: str) -> tuple[int, int]:
    """`2:4711`, a partition and an offset."""
    found = _POSITION.fullmatch(text)
    if found is None or int(found[2]) > NUMBER_MAX:
        raise click.BadParameter(f"{text!r} is no position. Write a partition and an offset, as in 2:4711.")
    return int(found[1]), int(found[2])


def _hold(text: str) -> int | None:
    """Seconds; None for no hold."""
    return None if text == NOTHING else max(duration(text) // _SECOND_NS, 1)


@group.command()
@stream_argument
@group_argument
@click.option("--offset", "offsets", type=_position, multiple=True, metavar="PARTITION:OFFSET",
              help="The next offset to read in a partition; may be repeated.")  # fmt: skip
@click.option("--to", type=place, metavar="PLACE", help="In all partitions: earliest, latest, an offset or a time.")
@click.option("--kind", type=click.Choice(["consumer", "spark", "archive"]), help="Who reads.")
@click.option("--hold", metavar="DURATION", help="Keep what is not read so long after a commit; 'none' for no hold.")
@click.option("--location", help="Where an archive lies.")
@json_option
@connected
def commit(
    asked: Asked,
    name: str,
    group_name: str,
    offsets: tuple[tuple[int, int], ...],
    to: Start | None,
    kind: str | None,
    hold: str | None,
    location: str | None,
    as_json: bool,
) -> None:
    """Set how far a group of the stream NAME has read, or what is held for it. It is made if it is new.

    What is not named stays as it is. Stop the group's readers first: a running one commits its own positions.

    \b
    Example:
      flowmesh group commit orders billing --offset 0:4711
      flowmesh group commit orders billing --to earliest
      flowmesh group commit orders billing --hold 7d
    """
    from flowmesh.cli.talking import talking

    said: dict[str, Any] = {"kind": kind, "location": location}
    chosen = {key: value for key, value in said.items() if value is not None}
    if hold is not None:
        chosen["hold_s"] = _hold(hold)
    if not chosen and not offsets and to is None:
        raise click.UsageError("say what to commit: --offset, --to, --hold, --kind or --location")
    with talking(asked) as node:
        stream = node.stream(name)
        positions = {**({} if to is None else _everywhere(node, stream, to)), **dict(offsets)}
        settings = {**_settings(node, stream, group_name), **chosen}
        made = node.wait(stream.commit_group(group_name, positions, **settings))
    _tell(made, as_json)


def _settings(node: Conversation, stream: StreamHandle, group_name: str) -> dict[str, Any]:
    """What the group says of itself now, which a commit would else take away."""
    try:
        known = node.wait(stream.group(group_name))
    except NotFound as error:
        if error.field != "group":
            raise
        return {}
    return {"kind": known.kind, "hold_s": known.hold_s, "location": known.location}


def _everywhere(node: Conversation, stream: StreamHandle, to: Start) -> dict[int, int]:
    """The offset of a place in each partition; an offset that a partition does not have is its nearest end."""
    found = {}
    for each in node.wait(stream.describe()).partitions:
        if to.offset is not None:
            found[each.partition] = min(max(to.offset, each.start_offset), each.end_offset)
        else:
            asked = {"at": to.end} if to.end else {"time": str(to.time_ns)}
            found[each.partition] = node.wait(stream.find(partition=each.partition, **asked)).offset
    return found


@group.command()
@stream_argument
@group_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@connected
def delete(asked: Asked, name: str, group_name: str, yes: bool) -> None:
    """Forget a group of the stream NAME: its positions and its hold. Records are not touched.

    \b
    Example:
      flowmesh group delete orders billing
    """
    from flowmesh.cli.talking import talking

    with talking(asked) as node:
        path = node.path(name)
        if not yes:
            click.confirm(f"Forget the positions of group {group_name} of {path}?", abort=True, err=True)
        node.wait(node.stream(name).delete_group(group_name))
    click.echo(f"group '{group_name}' of {path} is deleted")


def _hold_text(described: GroupDescription) -> str:
    if described.hold_expires is None:
        return NOTHING
    return f"{'until' if described.holding else 'over since'} {described.hold_expires}"


def _tell(described: GroupDescription, as_json: bool) -> None:
    import msgspec

    from flowmesh.cli.tables import aligned, count_text

    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(described)))
        return
    path = f"{described.tenant}/{described.namespace}/{described.stream}"
    click.echo(f"group {described.group} of {path}, {described.kind}, {count_text(described.lag, 'record')} behind")
    for title, value in (
        ("made", described.created),
        ("last commit", described.updated),
        ("hold", _hold_text(described)),
        ("location", described.location),
    ):
        if value is not None:
            click.echo(f"{title:12} {value}")
    rows = [
        (each.partition, each.offset, each.end_offset, each.lag, max(each.start_offset - each.offset, 0))
        for each in described.partitions
    ]
    click.echo("\n".join(aligned(("partition", "next offset", "end", "lag", "lost"), rows)))
