"""Columns: what goes in comes out, and no batch of a stranger leads a reader outside its body."""

import struct
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.base.errors import BadRequest, CorruptData
from flowmesh.base.times import UNSTAMPED
from flowmesh.format import batch, columns
from tests.format.damage import ROWS
from tests.format.examples import RECORDS_STORED

Items = list[bytes | None]


def crafted(flags: int, count: int, *parts: tuple[str, *tuple[int, ...]] | bytes, **changes: Any) -> batch.Batch:
    """Columns from struct formats and numbers."""
    pieces = [
        part if isinstance(part, bytes) else struct.pack(f"<{len(part) - 1}{part[0]}", *part[1:]) for part in parts
    ]
    made = batch.make(b"".join(pieces), flags=flags, count=count, base_time_ns=0, max_time_ns=0)
    return made._replace(header=made.header._replace(**changes))


@given(ROWS, st.booleans(), st.booleans(), st.booleans(), st.sampled_from(batch.Codec))
def test_round_trip(rows: list[Any], keyed: bool, headed: bool, timed: bool, codec: batch.Codec) -> None:
    values, keys, headers, times = (list(column) for column in zip(*rows, strict=True))
    made = columns.encode(
        values,
        keys=keys if keyed else None,
        headers=headers if headed else None,
        times_ns=times if timed else None,
        codec=codec,
    )
    data = batch.stamp(made.header, 1000, 0, 77) + bytes(made.body)
    expected = [
        (1000 + i, time_ns if timed else 77, key if keyed else None, value, tuple(pairs) if headed else ())
        for i, (value, key, pairs, time_ns) in enumerate(rows)
    ]
    held = batch.decode(data)
    assert columns.check(held).records() == columns.decode(held).records() == expected
    assert held.header.max_time_ns == max(times if timed else [77])


@given(st.lists(st.binary(max_size=5), min_size=1, max_size=70))
def test_what_has_no_nulls_has_no_bitmap(values: list[bytes]) -> None:
    made = columns.encode(values, keys=values, headers=[[] for _ in values])
    assert made.header.flags == batch.ColumnFlag.KEYS
    assert columns.check(made).values.items() == values


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 129])
def test_null_and_empty_are_told_apart_at_every_width_of_the_bitmap(count: int) -> None:
    values: Items = [None if i % 3 == 0 else b"" for i in range(count)]
    made = columns.encode(values, keys=values[::-1])
    read = columns.check(made)
    assert read.values.nullable_items() == values
    assert read.keys is not None
    assert read.keys.nullable_items() == values[::-1]
    assert read.values.items() == [b""] * count


def test_bits_past_the_count_mean_nothing() -> None:
    made = crafted(batch.ColumnFlag.VALUE_NULLS, 2, b"\xfe" + b"\xff" * 7, ("i", 0, 1, 2), b"ab")
    assert columns.check(made).values.nullable_items() == [None, b"b"]


def test_nulls_of_a_great_batch_are_read_in_linear_time() -> None:
    column = columns.encode([None, b""] * 400_000)
    began = time.process_time()
    assert columns.decode(column).values.nullable_items().count(None) == 400_000
    assert time.process_time() - began < 3


@pytest.mark.parametrize("times", [[5], [5, 5, 5], [5, 4, 6], [-(2**62) + 1, 2**62 - 1]])
def test_times_are_deltas_only_when_they_differ(times: list[int]) -> None:
    made = columns.encode([b""] * len(times), times_ns=times)
    assert bool(made.header.flags & batch.ColumnFlag.TIMES) == (len(set(times)) > 1)
    assert (made.header.base_time_ns, made.header.max_time_ns) == (times[0], max(times))
    assert columns.check(made).times() == times


def test_without_times_the_batch_waits_for_its_stamp() -> None:
    header = columns.encode([b"a", b"b"]).header
    assert (header.base_time_ns, header.max_time_ns) == (UNSTAMPED, UNSTAMPED)
    assert columns.check(columns.encode([b"a"])).count == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"values": []},
        {"values": ["text"]},
        {"values": [1]},
        {"values": [None, 1]},
        {"values": [b"a"], "keys": []},
        {"values": [b"a"], "keys": ["text"]},
        {"values": [b"a"], "headers": [[], []]},
        {"values": [b"a"], "headers": [[(b"n", None)]]},
        {"values": [b"a"], "headers": [[(None, b"v")]]},
        {"values": [b"a"], "headers": [[("n", "v")]]},
        {"values": [b"a"], "times_ns": [1, 2]},
        {"values": [b"a"], "times_ns": [2**62]},
        {"values": [b"a"], "times_ns": [-(2**62)]},
        {"values": [b"a"], "times_ns": [UNSTAMPED]},
    ],
)
def test_what_is_no_batch_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        columns.encode(arguments.pop("values"), **arguments)


def test_a_foreign_batch_has_no_columns() -> None:
    with pytest.raises(BadRequest):
        columns.decode(batch.foreign(b"opaque", 3))


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(crafted(0, 1, ("i", 1, 1), b"a"), id="does not begin at 0"),
        pytest.param(crafted(0, 1, ("i", 0, -1)), id="negative end"),
        pytest.param(crafted(0, 1, ("i", 0, 2**31 - 1), b"a"), id="ends past the body"),
        pytest.param(crafted(0, 1, ("i", 0, 1), b"ab"), id="ends before the body"),
        pytest.param(crafted(0, 4, ("i", 0, 1)), id="fewer offsets than records"),
        pytest.param(crafted(batch.ColumnFlag.TIMES, 2, ("q", 0)), id="fewer times than records"),
        pytest.param(crafted(batch.ColumnFlag.VALUE_NULLS, 65, bytes(8)), id="short bitmap"),
        pytest.param(crafted(batch.ColumnFlag.HEADERS, 1, ("i", 0, 0), ("i", 0, 2**31 - 1)), id="endless header pairs"),
        pytest.param(crafted(batch.ColumnFlag.HEADERS, 1, ("i", 0, 0), ("i", 0, -5)), id="negative header pairs"),
    ],
)
def test_sizes_that_cannot_be_are_refused_by_decode(made: batch.Batch) -> None:
    with pytest.raises(CorruptData):
        columns.decode(made)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(crafted(0, 3, ("i", 0, 9, 1, 2), b"ab"), id="values go back"),
        pytest.param(crafted(0, 3, ("i", 0, -7, 1, 2), b"ab"), id="values below 0"),
        pytest.param(crafted(4, 2, ("i", 0, 0, 0), ("i", 0, 2, 1), b"k"), id="keys go back"),
        pytest.param(crafted(16, 2, ("i", 0, 0, 0), ("i", 0, 3, 0), ("i", 0), ("i", 0)), id="bounds go back"),
        pytest.param(
            crafted(16, 1, ("i", 0, 0), ("i", 0, 2), ("i", 0, 5, 1), ("i", 0, 0, 0), b"n"), id="header names go back"
        ),
        pytest.param(
            crafted(16, 1, ("i", 0, 0), ("i", 0, 2), ("i", 0, 0, 0), ("i", 0, 5, 1), b"v"), id="header values go back"
        ),
        pytest.param(crafted(1, 2, ("q", 0, 5), ("i", 0, 0, 0)), id="greatest time too low"),
        pytest.param(crafted(1, 2, ("q", 0, -5), ("i", 0, 0, 0), max_time_ns=7), id="greatest time too high"),
        pytest.param(crafted(0, 1, ("i", 0, 0), max_time_ns=2**61), id="greatest time without times"),
        pytest.param(crafted(1, 2, ("q", 0, -(2**62)), ("i", 0, 0, 0)), id="time too early"),
        pytest.param(crafted(1, 2, ("q", 0, 2**62), ("i", 0, 0, 0), max_time_ns=2**62), id="time too late"),
        pytest.param(crafted(0, 1, ("i", 0, 0), base_time_ns=2**62, max_time_ns=2**62), id="base time too late"),
        pytest.param(
            crafted(1, 2, ("q", 0, 5), ("i", 0, 0, 0), base_time_ns=UNSTAMPED, max_time_ns=UNSTAMPED + 5),
            id="times on a batch that asks for a stamp",
        ),
    ],
)
def test_contents_that_cannot_be_are_refused_by_check(made: batch.Batch) -> None:
    columns.decode(made)
    with pytest.raises(CorruptData):
        columns.check(made)


def test_columns_are_views_of_the_batch() -> None:
    data = bytearray(RECORDS_STORED)
    read = columns.decode(batch.decode(data))
    assert bytes(read.values.data) == b"paid"
    data[-4:] = b"owed"
    assert bytes(read.values.data) == b"owed"
    assert read.values.nullable_items() == [b"owed", None]
