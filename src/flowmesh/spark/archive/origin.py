"""Where the segments of a stream lie on this machine: in the data directory of a node, or a log by itself."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from flowmesh.base.errors import NotFound
from flowmesh.format.names import CHAIN
from flowmesh.host.disk import RealDisk
from flowmesh.log.open_log import read_log
from flowmesh.log.view import LogView
from flowmesh.node import paths


class Origin(NamedTuple):
    """The partitions of one stream, each with its directory."""

    stream: str
    directories: dict[int, str]

    def view(self, partition: int) -> LogView:
        """What is durable now; its owner may be at work there."""
        return read_log(RealDisk(), self.directories[partition])


def stream_origin(data_dir: str | Path, stream: str) -> Origin:
    """`stream` is `tenant/namespace/name`, and the directory is that of its node."""
    directory = Path(data_dir).absolute() / paths.resource_directory(paths.STREAMS, stream)
    found = _partitions(directory)
    if not found:
        raise NotFound(
            f"there is no stream {stream!r} in {Path(data_dir).absolute()}.",
            field="stream",
            hint="Name the --data-dir of the node, and the stream as tenant/namespace/name.",
        )
    return Origin(stream, found)


def log_origin(directory: str | Path) -> Origin:
    """A log without a node, as `flowmesh log append` makes one; or the directory of a stream."""
    place = Path(directory).absolute()
    if (place / CHAIN).exists():
        return Origin(str(place), {0: str(place)})
    found = _partitions(place)
    if not found:
        raise NotFound(f"there is no log in {place}.", field="stream")
    return Origin(str(place), found)


def _partitions(directory: Path) -> dict[int, str]:
    if not directory.is_dir():
        return {}
    numbers = sorted(int(entry.name) for entry in directory.iterdir() if entry.name.isdigit())
    return {number: str(directory / str(number)) for number in numbers if (directory / str(number) / CHAIN).exists()}
