"""JSON to typed columns: whatever stands in a value, each record gets its own fields or its own reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.spark.values import ValueParser

SCHEMA = pa.schema([pa.field("a", pa.int64()), pa.field("s", pa.string())])


def parsed(values: list[bytes | None], schema: pa.Schema = SCHEMA) -> tuple[list[dict[str, Any]], list[str | None]]:
    typed, errors = ValueParser(schema).parse(pa.array(values, pa.binary()))
    assert typed.schema.equals(schema)
    return typed.to_pylist(), errors.to_pylist()


def one(kind: pa.DataType, text: bytes) -> Any:
    rows, errors = parsed([b'{"x":' + text + b"}"], pa.schema([pa.field("x", kind)]))
    return errors[0] or rows[0]["x"]


def test_good_records_and_null_ones_have_no_error() -> None:
    rows, errors = parsed([b'{"a":1,"s":"x"}', None, b'{"s":"y","more":[1,{"z":2}]}', b"{}", b' {"a":2}\n'])
    assert rows == [
        {"a": 1, "s": "x"},
        {"a": None, "s": None},
        {"a": None, "s": "y"},
        {"a": None, "s": None},
        {"a": 2, "s": None},
    ]
    assert errors == [None] * 5


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"null", b"7", b"[]", b'"x"', b'{"a":1', b'{"a":1}{"a":2}', b'{"a":1} x', b'{"a":"1"}', b'{"a":1.5}',
        b'{"a":99999999999999999999}', b'{"s":1}', b'{"s":"\xff"}', b'{"s":"a\nb"}', b'{"a":1,"a":2}', b"\x00\xff",
    ],
)  # fmt: skip
def test_a_bad_record_spoils_no_other(bad: bytes) -> None:
    values = [b'{"a":%d}' % number for number in range(200)]
    values[77] = bad
    rows, errors = parsed(list(values))
    assert [row["a"] for row in rows] == [None if number == 77 else number for number in range(200)]
    assert [number for number, error in enumerate(errors) if error] == [77]


def test_records_that_make_up_for_one_another_are_still_told_apart() -> None:
    """Together they have as many objects as there are records, and every byte is in its place for one parse."""
    values: list[bytes | None] = [b'{"a":1}{"a":2}', b'{"s":"}', b'{"}', b'{"a":4}', b'{"a":5}', b'{"s":', b'"x"}']
    rows, errors = parsed(values)
    assert [row["a"] for row in rows] == [None, None, None, 4, 5, None, None]
    assert [bool(error) for error in errors] == [True, True, True, False, False, True, True]


def test_types_are_kept_strictly() -> None:
    assert one(pa.float64(), b"1") == 1.0
    assert one(pa.bool_(), b"true") is True
    assert "boolean" in one(pa.bool_(), b"1")
    assert one(pa.int8(), b"12") == 12
    assert "couldn't parse" in one(pa.int8(), b"300")
    assert str(one(pa.date32(), b'"2026-03-04"')) == "2026-03-04"
    assert isinstance(one(pa.date32(), b'"soon"'), str)
    assert str(one(pa.decimal128(10, 2), b'"1.25"')) == "1.25"
    assert one(pa.list_(pa.field("element", pa.int64())), b"[1,null,3]") == [1, None, 3]
    inner = pa.struct([pa.field("day", pa.date32()), pa.field("n", pa.int32())])
    assert one(inner, b'{"n":3}') == {"day": None, "n": 3}
    assert "array" in one(inner, b"[]")


@pytest.mark.parametrize(
    "text, micros",
    [
        (b'"2026-01-01T00:00:00Z"', 0),
        (b'"2026-01-01 00:00:00"', 0),
        (b'"2026-01-01T02:00:00+02:00"', 0),
        (b'"2026-01-01T00:00:00.123456789Z"', 123456),
        (b'"2026-01-01"', 0),
    ],
)
def test_times_are_read_in_the_ways_they_are_written(text: bytes, micros: int) -> None:
    found = one(pa.timestamp("us", tz="UTC"), text)
    assert (found.year, found.hour, found.microsecond) == (2026, 0, micros)


def test_times_far_away_and_fine_ones_stand_side_by_side() -> None:
    kind = pa.schema([pa.field("t", pa.timestamp("us", tz="UTC"))])
    rows, errors = parsed([b'{"t":"9999-12-31T00:00:00Z"}', b'{"t":"2026-01-01T00:00:00.123456789Z"}'], kind)
    assert errors == [None, None]
    assert [row["t"].year for row in rows] == [9999, 2026]


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.builds(lambda a, s: msgspec.json.encode({"a": a, "s": s}), st.integers(0, 99), st.text(max_size=5)),
            st.sampled_from([b"", b"{", b"}", b'{"a":1}{"a":2}', b'{"s":"}', b'{"}', b"\n", b'{"a":"x"}', b"[{}]"]),
        ),
        max_size=80,
    )
)
def test_many_records_are_what_each_would_be_alone(values: list[bytes | None]) -> None:
    rows, errors = parsed(values)
    alone = [parsed([value]) for value in values]
    assert rows == [found[0] for found, _ in alone]
    assert [bool(error) for error in errors] == [bool(error[0]) for _, error in alone]
