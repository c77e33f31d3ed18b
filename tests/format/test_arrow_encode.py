"""Arrow to a batch and back: the same records, whatever slice of whatever array they came from."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.base.errors import BadRequest
from flowmesh.format import arrow, batch, columns
from flowmesh.format.batch import Producer
from tests.format.damage import ROWS

pa = pytest.importorskip("pyarrow")
from flowmesh.format.arrow_encode import from_arrow  # noqa: E402 (it needs pyarrow)


def arrays(rows: list[Any]) -> tuple[Any, ...]:
    values, keys, headers, times = (list(column) for column in zip(*rows, strict=True))
    return (
        pa.array(values, pa.binary()),
        pa.array(keys, pa.binary()),
        pa.array([list(pairs) for pairs in headers], arrow.HEADERS),
        pa.array(times, pa.int64()),
    )


@given(ROWS, ROWS, ROWS, st.booleans(), st.booleans(), st.booleans(), st.sampled_from(batch.Codec))
def test_a_slice_of_arrow_is_the_batch_that_its_rows_make(
    before: list[Any], rows: list[Any], after: list[Any], keyed: bool, headed: bool, timed: bool, codec: batch.Codec
) -> None:
    values, keys, headers, times = (array.slice(len(before), len(rows)) for array in arrays(before + rows + after))
    made = from_arrow(
        values,
        keys=keys if keyed else None,
        headers=headers if headed else None,
        times_ns=times if timed else None,
        codec=codec,
        producer=Producer(7, 3, 11),
    )
    plain = [list(column) for column in zip(*rows, strict=True)]
    expected = columns.encode(
        plain[0],
        keys=plain[1] if keyed else None,
        headers=plain[2] if headed else None,
        times_ns=plain[3] if timed else None,
        codec=codec,
        producer=Producer(7, 3, 11),
    )
    assert columns.check(made).records() == columns.check(expected).records()
    assert made.header[4:13] == expected.header[4:13]
    table = arrow.to_arrow(made, ("value",))
    assert table.column("value").equals(values)


def test_columns_that_say_nothing_are_left_out() -> None:
    values = pa.array([b"a", b"b"], pa.binary())
    made = from_arrow(
        values, keys=pa.nulls(2, pa.binary()), headers=pa.array([[], None], arrow.HEADERS), times_ns=pa.array([5, 5])
    )
    assert made.header.flags == 0
    assert made.header.base_time_ns == made.header.max_time_ns == 5


def test_null_headers_are_none() -> None:
    values = pa.array([b"a", b"b", b"c"], pa.binary())
    made = from_arrow(values, headers=pa.array([[(b"n", b"1")], None, [(b"m", b"")]], arrow.HEADERS))
    assert [record.headers for record in columns.decode(made).records()] == [((b"n", b"1"),), (), ((b"m", b""),)]


@pytest.mark.parametrize(
    "given_columns, field",
    [
        ({"values": ["text"]}, "value"),
        ({"keys": [1]}, "key"),
        ({"times_ns": [None]}, "timestamp"),
        ({"times_ns": [2**62]}, "timestamp"),
    ],
)
def test_what_is_no_record_is_refused_by_name(given_columns: dict[str, list[Any]], field: str) -> None:
    made = {
        name: pa.array(column, pa.int64() if name == "times_ns" else None) for name, column in given_columns.items()
    }
    with pytest.raises(BadRequest) as raised:
        from_arrow(**{"values": pa.array([b"a"], pa.binary()), **made})
    assert raised.value.field == field


def test_a_null_in_a_header_is_refused() -> None:
    headers = pa.array([[(b"n", None)]], arrow.HEADERS)
    with pytest.raises(BadRequest, match="header"):
        from_arrow(pa.array([b"a"], pa.binary()), headers=headers)
