"""What a command about archives means by its arguments: a stream with its files, its node, and a location."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from flowmesh.base.errors import FlowMeshError, NotFound
from flowmesh.cli import targets
from flowmesh.cli.connection_options import Asked
from flowmesh.format.names import CHAIN

if TYPE_CHECKING:
    from flowmesh.spark.archive.origin import Origin
    from flowmesh.spark.options import NodeAccess, StreamName

PATIENCE_NS = 120 * 1_000_000_000
DATA_DIR = "./flowmesh-data"

data_dir_option = click.option(
    "--data-dir",
    envvar="FLOWMESH_DATA_DIR",
    default=DATA_DIR,
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The data directory of the node, where the segments lie.",
)


class ArchiveTarget(NamedTuple):
    origin: Origin
    stream: StreamName | None
    """None for a log without a node."""
    access: NodeAccess | None


def resolve(target: str, data_dir: Path, asked: Asked, *, with_node: bool) -> ArchiveTarget:
    """A directory with a log or with the partitions of a stream; else a stream, by name."""
    from flowmesh.spark.archive.origin import log_origin, stream_origin
    from flowmesh.spark.options import NodeAccess, Secret, StreamName

    place = Path(target)
    if place.is_dir() and ((place / CHAIN).exists() or (place / "0" / CHAIN).exists()):
        return ArchiveTarget(log_origin(place), None, None)
    if not with_node:
        try:
            context = targets.find(asked)
        except FlowMeshError:
            context = None
        path = targets.path_of(context, target) if context is not None else _path_without_context(target)
        return ArchiveTarget(stream_origin(data_dir, str(path)), StreamName(*path), None)
    context = targets.find(asked)
    path = targets.path_of(context, target)
    ca_file = None if context.ca_file is None else str(context.ca_file)
    access = NodeAccess(context.url, Secret(context.token), None, ca_file, PATIENCE_NS)
    return ArchiveTarget(stream_origin(data_dir, str(path)), StreamName(*path), access)


def _path_without_context(name: str) -> targets.StreamPath:
    parts = name.split("/")
    if len(parts) > 3:
        raise NotFound(f"{name[:80]!r} is neither a directory with a log nor a stream.", field="target")
    return targets.StreamPath(*["default", "default"][: 3 - len(parts)], *parts)


def absolute(location: str) -> str:
    """A local directory by its full path, so that it means the same everywhere; anything else as it is."""
    from flowmesh.archive.store import is_local, local_path

    return str(local_path(location)) if is_local(location) else location.rstrip("/")
