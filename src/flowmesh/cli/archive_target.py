"""What a command about archives means by its arguments: a stream with its files, its node, and a location."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from flowmesh.base.errors import FlowMeshError, NotFound
from flowmesh.cli.connection_options import Asked
from flowmesh.format.names import CHAIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowmesh.cli.targets import StreamPath
    from flowmesh.spark.archive.job import ArchiveOptions, ArchiveReport
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
    from flowmesh.cli import targets
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


def _path_without_context(name: str) -> StreamPath:
    from flowmesh.cli.targets import StreamPath

    parts = name.split("/")
    if len(parts) > 3:
        raise NotFound(f"{name[:80]!r} is neither a directory with a log nor a stream.", field="target")
    return StreamPath(*["default", "default"][: 3 - len(parts)], *parts)


def absolute(location: str) -> str:
    """A local directory by its full path, so that it means the same everywhere; anything else as it is."""
    from flowmesh.archive.store import is_local, local_path

    return str(local_path(location)) if is_local(location) else location.rstrip("/")


class Archiving(NamedTuple):
    """What was said once for all streams of one command."""

    asked: Asked
    data_dir: Path
    location: str
    options: ArchiveOptions
    group: str
    hold_s: int | None
    """None: no node is told."""


def archive_one(spark: SparkSession, archiving: Archiving, stream: str, *, below: bool) -> tuple[str, ArchiveReport]:
    from flowmesh.cli.spark_options import job_bar
    from flowmesh.spark.archive.job import run_archive
    from flowmesh.spark.archive_group import GroupHolder

    found = resolve(stream, archiving.data_dir, archiving.asked, with_node=archiving.hold_s is not None)
    place = absolute(archiving.location)
    if below:
        place = f"{place}/{found.stream or Path(found.origin.stream).name}"
    holder = None
    if found.access is not None and found.stream is not None and archiving.hold_s is not None:
        holder = GroupHolder(found.access, found.stream, place, group=archiving.group, hold_s=archiving.hold_s)
    with job_bar(f"archiving {stream}") as bar:
        return place, run_archive(spark, found.origin, place, archiving.options, holder=holder, progress=bar)
