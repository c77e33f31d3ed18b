"""Batches as Arrow: the same records, and for keys, values and headers the same memory."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.format import arrow, batch, columns
from tests.format.damage import RECORD_TIMES, ROWS
from tests.format.examples import HEADERS, KEYS, RECORDS_STORED, TIMES_NS, VALUES

pa = pytest.importorskip("pyarrow")

NAMES = ["offset", "timestamp", "key", "value", "headers"]


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    times = table.column("timestamp").cast(pa.int64())
    plain = [table.column(name).to_pylist() for name in ("offset", "key", "value", "headers")]
    return list(zip(plain[0], times.to_pylist(), *plain[1:], strict=True))


def addresses(buffer: bytes | bytearray | memoryview) -> range:
    whole = pa.py_buffer(buffer)
    return range(whole.address, whole.address + whole.size)


@given(ROWS, st.booleans(), st.booleans(), st.booleans(), st.sampled_from(batch.Codec))
def test_arrow_says_what_the_records_say(
    rows: list[Any], keyed: bool, headed: bool, timed: bool, codec: batch.Codec
) -> None:
    values, keys, headers, times = (list(column) for column in zip(*rows, strict=True))
    made = columns.encode(
        values,
        keys=keys if keyed else None,
        headers=headers if headed else None,
        times_ns=times if timed else None,
        codec=codec,
    )
    held = batch.decode(batch.stamp(made.header, 5, 0, 77) + bytes(made.body))
    table = arrow.to_arrow(held)
    table.validate(full=True)
    assert table.schema.equals(arrow.SCHEMA)
    expected = [
        (record.offset, record.time_ns, record.key, record.value, list(record.headers))
        for record in columns.decode(held).records()
    ]
    assert rows_of(table) == expected


def test_values_keys_and_headers_share_the_memory_of_the_batch() -> None:
    table = arrow.to_arrow(batch.decode(RECORDS_STORED))
    memory = addresses(RECORDS_STORED)
    headers = table.column("headers")
    for array, parts in (
        (table.column("value"), ["present", "offsets", "data"]),
        (table.column("key"), [None, "offsets", "data"]),
        (headers.keys, [None, "offsets", "data"]),
        (headers.items, [None, "offsets", "data"]),
    ):
        buffers = array.buffers()
        assert [buffer is not None for buffer in buffers] == [part is not None for part in parts]
        for buffer in buffers:
            assert buffer is None or (buffer.address in memory and buffer.address + buffer.size <= memory.stop)
    assert headers.buffers()[1].address in memory


def test_a_compressed_batch_is_unfolded_once_and_then_shared() -> None:
    made = columns.encode([b"value"] * 1000, keys=[b"k"] * 1000, codec=batch.Codec.ZSTD)
    table = arrow.to_arrow(made, ["key", "value"])
    buffers = [buffer for array in table.columns for buffer in array.buffers() if buffer is not None]
    span = max(buffer.address + buffer.size for buffer in buffers) - min(buffer.address for buffer in buffers)
    assert span == made.header.body_bytes


def test_a_change_of_the_memory_is_a_change_of_the_array() -> None:
    data = bytearray(RECORDS_STORED)
    table = arrow.to_arrow(batch.decode(data), ["value"])
    data[-4:] = b"owed"
    assert table.column("value").to_pylist() == [b"owed", None]


def test_the_example() -> None:
    table = arrow.to_arrow(batch.decode(RECORDS_STORED))
    expected = zip([1, 2], TIMES_NS, KEYS, VALUES, HEADERS, strict=True)
    assert rows_of(table) == list(expected)


@pytest.mark.parametrize("names", [[], ["value"], ["headers", "offset"], NAMES[::-1]])
def test_the_named_columns_in_the_named_order(names: list[str]) -> None:
    table = arrow.to_arrow(batch.decode(RECORDS_STORED), names)
    assert table.schema.names == names
    table.validate(full=True)


def test_schema() -> None:
    assert arrow.SCHEMA.names == NAMES
    assert [field.type for field in arrow.SCHEMA] == [
        pa.int64(),
        pa.timestamp("ns", tz="UTC"),
        pa.binary(),
        pa.binary(),
        pa.map_(pa.binary(), pa.binary()),
    ]
    assert [field.nullable for field in arrow.SCHEMA] == [False, False, True, True, False]


def test_null_and_empty_are_told_apart() -> None:
    table = arrow.to_arrow(columns.encode([None, b""], keys=[b"", None]), ["key", "value"])
    assert table.to_pydict() == {"key": [b"", None], "value": [None, b""]}
    unkeyed = arrow.to_arrow(columns.encode([b"", b""]), ["key"])
    assert unkeyed.column("key").null_count == 2


@given(st.lists(RECORD_TIMES, min_size=1, max_size=20))
def test_times_before_1970_and_far_away(times: list[int]) -> None:
    table = arrow.to_arrow(columns.encode([b""] * len(times), times_ns=times), ["timestamp"])
    assert table.column("timestamp").cast(pa.int64()).to_pylist() == times


@pytest.mark.parametrize("count", [1, 1000, 3, 2500, 2])
def test_offsets_count_from_the_base(count: int) -> None:
    """Batches of other sizes before and after share one counted array."""
    made = columns.encode([b""] * count)
    held = made._replace(header=made.header._replace(base_offset=2**63 - 1 - count))
    assert arrow.to_arrow(held, ["offset"]).column("offset").to_pylist() == list(range(2**63 - 1 - count, 2**63 - 1))
