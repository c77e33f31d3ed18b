"""What the partitions of a node count while they commit. Written by the owner of the logs, read by whoever likes."""

from __future__ import annotations

from flowmesh.base.distribution import Distribution

_MILLISECOND_NS = 1_000_000
_RECORDS = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000)
_BYTES = tuple(float(1 << power) for power in range(8, 28, 2))
_SYNC_NS = tuple(
    milliseconds * _MILLISECOND_NS
    for milliseconds in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 250, 500, 1_000, 5_000)
)


class CommitStatistics:
    """One commit is what one round wrote to one partition, under one fsync."""

    __slots__ = ("records", "size_bytes", "sync_ns")

    def __init__(self) -> None:
        self.records = Distribution(_RECORDS)
        self.size_bytes = Distribution(_BYTES)
        self.sync_ns = Distribution(_SYNC_NS)
