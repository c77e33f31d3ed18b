"""How much one micro-batch takes of what waits: a limit in records or bytes, shared among partitions by their lags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flowmesh.base.limits import SPLIT_BYTES_MAX, SPLIT_BYTES_MIN
from flowmesh.spark.location import Range, StreamAsking


def within_rows(ranges: Mapping[int, tuple[int, int]], rows: int) -> dict[int, int]:
    """Where each partition ends so that all together have at most `rows` records. None that waits is left behind."""
    lags = {partition: max(end - start, 0) for partition, (start, end) in ranges.items()}
    shares = _shares(lags, rows)
    return {partition: start + shares[partition] for partition, (start, _) in ranges.items()}


def _shares(lags: Mapping[int, int], budget: int) -> dict[int, int]:
    """In proportion to the lags; what is lost to rounding goes to the longest ones first."""
    total = sum(lags.values())
    if total <= budget:
        return dict(lags)
    shares = {key: lag * budget // total for key, lag in lags.items()}
    left = budget - sum(shares.values())
    for key in sorted(lags, key=lambda each: (-lags[each], each)):
        if left > 0 and shares[key] < lags[key]:
            shares[key] += 1
            left -= 1
    return shares


def within_bytes(asking: StreamAsking, ranges: Sequence[Range], size_bytes: int) -> dict[int, int]:
    """Where each partition ends so that all together are about `size_bytes`, as stored: to within a block each.

    The index knows sizes to within 64 KiB, so that a smaller limit is not kept exactly, and each partition moves on.
    """
    if not ranges:
        return {}
    fine = min(max(size_bytes // (4 * len(ranges)), SPLIT_BYTES_MIN), SPLIT_BYTES_MAX)
    pieces = asking.split(ranges, fine)
    sizes = {each.partition: 0 for each in ranges}
    for piece in pieces:
        sizes[piece.partition] += piece.size_bytes
    shares = _shares(sizes, size_bytes)
    ends: dict[int, int] = {}
    taken = dict.fromkeys(sizes, 0)
    for piece in pieces:
        taken[piece.partition] += piece.size_bytes
        if piece.partition not in ends or taken[piece.partition] <= shares[piece.partition]:
            ends[piece.partition] = piece.end
    return ends
