"""Where a stream is, as something that travels to executors, and the asking that plans need: bounds, places, splits.

A stream is asked through a node or through its files. Reading the records themselves is in `reading`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from flowmesh.spark.options import NodeAccess, StreamName


class Location(NamedTuple):
    """A node, a directory, or both: then the node is asked, and the files are read wherever they can be seen."""

    stream: StreamName
    node: NodeAccess | None
    data_dir: str | None


class Range(NamedTuple):
    """Offsets `[start, end)` of one partition."""

    partition: int
    start: int
    end: int


class PartitionFacts(NamedTuple):
    partition: int
    start: int
    end: int
    size_bytes: int


class StreamFacts(NamedTuple):
    id: str
    """Another one for a stream of the same name that was made later."""
    partitions: tuple[PartitionFacts, ...]


class SizedRange(NamedTuple):
    """A piece of a partition as the index cuts it."""

    partition: int
    start: int
    end: int
    size_bytes: int


class StreamAsking(Protocol):
    """What a plan asks of a stream, in few round trips."""

    def facts(self) -> StreamFacts: ...

    def find(self, moments: dict[int, int]) -> dict[int, int]:
        """By partition: the first offset whose record is not older than that time."""
        ...

    def split(self, ranges: Sequence[Range], split_bytes: int) -> list[SizedRange]:
        """The ranges in order, each cut at block boundaries: the same pieces every time."""
        ...

    def times(self, partition: int, offset: int) -> tuple[int, int, int]:
        """Of the block that holds `offset`: the oldest time, the newest time, and the offset behind it."""
        ...

    def close(self) -> None: ...
