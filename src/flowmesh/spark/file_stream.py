"""A stream as its files: a node's data directory, or the directory of one log. Reads beside whoever owns them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from flowmesh.assemble import read_local_log
from flowmesh.format import names
from flowmesh.log.splits import split
from flowmesh.log.view import LogView
from flowmesh.node import paths
from flowmesh.spark.errors import Condition, FlowMeshSparkError
from flowmesh.spark.location import PartitionFacts, Range, SizedRange, StreamFacts
from flowmesh.spark.options import StreamName
from flowmesh.spark.reading import time_span

VIEWS_MAX = 64
"""Views that one process keeps: a view holds the indexes of what was read last."""
_views: dict[Path, tuple[bytes, LogView]] = {}


def partition_directory(data_dir: str, stream: StreamName, partition: int) -> Path:
    root = Path(data_dir)
    if is_log(root):
        return root
    return root / paths.resource_directory(paths.STREAMS, str(stream)) / str(partition)


def is_log(directory: Path) -> bool:
    """Whether this is one log, as `flowmesh log append` makes it, and not a node's data directory."""
    return (directory / names.CHAIN).exists()


def current_view(directory: Path) -> LogView:
    """What is durable in a log now. One that has not moved since it was last looked at is not looked at again."""
    try:
        mark = (directory / names.MARK).read_bytes()
    except OSError:
        mark = b""
    known = _views.get(directory)
    if known is not None and mark and known[0] == mark:
        return known[1]
    view = read_local_log(directory)
    _views.pop(directory, None)
    while len(_views) >= VIEWS_MAX:
        _views.pop(next(iter(_views)))
    _views[directory] = (mark, view)
    return view


class FileStream:
    def __init__(self, data_dir: str, stream: StreamName) -> None:
        self._data_dir = data_dir
        self._stream = stream

    def facts(self) -> StreamFacts:
        root = Path(self._data_dir)
        if is_log(root):
            view = current_view(root)
            return StreamFacts(view.chain.hash.hex(), (_facts(0, view),))
        if not root.is_dir():
            raise self._missing(f"{root} is not a directory that can be seen here.")
        directory = root / paths.resource_directory(paths.STREAMS, str(self._stream))
        try:
            told = msgspec.json.decode((directory / paths.RESOURCE_FILE).read_bytes())
            count = int(told["settings"]["partitions"])
        except FileNotFoundError:
            raise self._missing(f"there is no stream {self._stream} in {root}.") from None
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError, OSError) as error:
            raise self._missing(f"{directory / paths.RESOURCE_FILE} cannot be read: {error}") from None
        views = [current_view(directory / str(number)) for number in range(count)]
        # Chain hashes are those of this very stream: one of the same name, made later, has others.
        return StreamFacts(views[0].chain.hash.hex(), tuple(_facts(number, view) for number, view in enumerate(views)))

    def _missing(self, message: str) -> FlowMeshSparkError:
        hint = "Options 'dataDir', 'stream', 'tenant' and 'namespace' say where to look."
        return FlowMeshSparkError(Condition.STREAM_NOT_FOUND, message, option="dataDir", hint=hint)

    def find(self, moments: dict[int, int]) -> dict[int, int]:
        return {partition: self._view(partition).offset_for_time(moment) for partition, moment in moments.items()}

    def split(self, ranges: Sequence[Range], split_bytes: int) -> list[SizedRange]:
        return [
            SizedRange(partition, piece.base_offset, piece.end_offset, piece.size_bytes)
            for partition, start, end in ranges
            for piece in split(self._view(partition), start, end, split_bytes)
        ]

    def times(self, partition: int, offset: int) -> tuple[int, int, int]:
        block = self._view(partition).read(offset, 1).blocks[0]
        return (*time_span(block.batch), block.end_offset)

    def _view(self, partition: int) -> LogView:
        return current_view(partition_directory(self._data_dir, self._stream, partition))

    def close(self) -> None:
        """Views stay: the next plan of this process may want them."""


def _facts(partition: int, view: LogView) -> PartitionFacts:
    return PartitionFacts(partition, view.start_offset, view.end_offset, view.size_bytes)
