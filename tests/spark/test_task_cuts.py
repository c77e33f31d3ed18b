"""A batch that is planned again has its old tasks, whatever its pieces are made of now."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from flowmesh.spark.planning import HotPiece, ReadPlan
from flowmesh.spark.task_cuts import cut_again, cuts_between

MIB = 1 << 20
PLAN = ReadPlan(
    (HotPiece(0, 5, 40, 3 * MIB), HotPiece(0, 40, 90, 3 * MIB), HotPiece(2, 0, 9, MIB), HotPiece(10, 7, 8, 9))
)


def ranges(tasks: list[list[HotPiece]]) -> list[list[tuple[int, int, int]]]:
    return [[(piece.partition, piece.start, piece.end) for piece in pieces] for pieces in tasks]


def test_cuts_are_where_another_task_begins_and_survive_json() -> None:
    tasks = PLAN.tasks()
    cuts = json.loads(json.dumps(cuts_between([task.pieces for task in tasks])))
    assert cuts == {"0": [40], "10": [7]}
    assert [task.pieces for task in PLAN._replace(cuts=cuts).tasks()] == [task.pieces for task in tasks]


def test_a_piece_that_reaches_over_a_cut_is_parted() -> None:
    whole = [HotPiece(0, 0, 100, MIB), HotPiece(1, 0, 50, MIB)]
    assert ranges(cut_again(whole, {"0": [30, 60], "1": [0, 10]})) == [
        [(0, 0, 30)], [(0, 30, 60)], [(0, 60, 100)], [(1, 0, 10)], [(1, 10, 50)],
    ]  # fmt: skip
    assert ranges(cut_again(whole, {"1": [10]})) == [[(0, 0, 100), (1, 0, 10)], [(1, 10, 50)]]


def test_a_task_of_which_nothing_is_left_keeps_its_number() -> None:
    left = [HotPiece(0, 70, 100, MIB), HotPiece(1, 20, 50, MIB)]
    assert ranges(cut_again(left, {"0": [30, 60], "1": [0, 10]})) == [[], [], [(0, 70, 100)], [], [(1, 20, 50)]]
    assert ranges(cut_again(left, {})) == [[(0, 70, 100), (1, 20, 50)]]


edges = st.sets(st.integers(1, 99), max_size=8).map(lambda found: [0, *sorted(found), 100])


@given(edges, edges, edges)
def test_each_offset_stays_with_its_task(first: list[int], second: list[int], other: list[int]) -> None:
    """Tasks of one cutting, filled with the pieces of another."""
    tasks = [[HotPiece(p, low, high, MIB)] for p, cut in ((0, first), (3, second)) for low, high in _pairs(cut)]
    pieces = [HotPiece(p, low, high, MIB) for p in (0, 3) for low, high in _pairs(other)]
    again = cut_again(pieces, cuts_between(tasks))
    assert [_offsets(task) for task in again] == [_offsets(task) for task in tasks]


def _pairs(found: list[int]) -> list[tuple[int, int]]:
    return list(pairwise(found))


def _offsets(pieces: list[HotPiece]) -> list[tuple[int, int]]:
    return [(piece.partition, offset) for piece in pieces for offset in range(piece.start, piece.end)]
