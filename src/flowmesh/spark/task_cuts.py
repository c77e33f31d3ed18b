"""Where one task of a micro-batch ends and the next one begins, as positions keep it. Plain values, no records.

A task of a query writes under its number. A batch that is run again must give each number the rows that it had, also
when the log has dropped what was read the first time and the archive, which is cut in other places, has to give it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Protocol, Self, TypeVar

Cuts = Mapping[str, Sequence[int]]
"""By partition, as a text like all keys of a position: the offsets at which another task begins."""


class CutPiece(Protocol):
    @property
    def partition(self) -> int: ...

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    def within(self, start: int, end: int) -> Self:
        """The part of it that lies in `[start, end)`."""
        ...


PieceT = TypeVar("PieceT", bound=CutPiece)


def cuts_between(tasks: Sequence[Sequence[CutPiece]]) -> dict[str, list[int]]:
    """The first task begins where the batch does: that is no cut."""
    found: dict[str, list[int]] = {}
    for pieces in tasks[1:]:
        found.setdefault(str(pieces[0].partition), []).append(pieces[0].start)
    return found


def cut_again(pieces: Sequence[PieceT], cuts: Cuts) -> list[list[PieceT]]:
    """The pieces by task, in order. A task of which nothing is left stays, so that the others keep their numbers."""
    edges = sorted((int(partition), offset) for partition, offsets in cuts.items() for offset in offsets)
    tasks: list[list[PieceT]] = [[] for _ in range(len(edges) + 1)]
    for piece in pieces:
        start = piece.start
        while start < piece.end:
            task = bisect_right(edges, (piece.partition, start))
            inside = task < len(edges) and edges[task][0] == piece.partition
            end = min(piece.end, edges[task][1]) if inside else piece.end
            tasks[task].append(piece if (start, end) == (piece.start, piece.end) else piece.within(start, end))
            start = end
    return tasks
