"""Keys to partitions, rows to columns, columns to JSON: in memory, without Spark's JVM."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from flowmesh.spark import key_hashes
from flowmesh.spark.errors import Condition, FlowMeshSparkError
from flowmesh.spark.json_rows import json_objects
from flowmesh.spark.rows import RowShape, routed, row_shape
from flowmesh.streams.partitioner import partition_of

KEYS = st.lists(st.none() | st.binary(max_size=19), max_size=60)


def shape(*fields: tuple[str, Any], as_json: bool = False) -> RowShape:
    made = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields]
    return row_shape(StructType.fromJson({"type": "struct", "fields": made}), as_json=as_json)


@given(KEYS, KEYS, st.integers(1, 256), st.sampled_from([1, 10_000]))
def test_keys_are_hashed_at_once_as_they_are_one_by_one(
    before: list[bytes | None], keys: list[bytes | None], partitions: int, vector_rows: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_hashes, "_VECTOR_ROWS", vector_rows)
        found = key_hashes.partitions_of(pa.array(before + keys, pa.binary()).slice(len(before)), partitions)
    assert found.to_pylist() == [None if key is None else partition_of(key, partitions) for key in keys]


@given(st.lists(st.tuples(st.none() | st.binary(max_size=3), st.none() | st.integers(0, 6)), min_size=1, max_size=60))
def test_each_row_goes_to_its_partition_in_order(rows: list[tuple[bytes | None, int | None]]) -> None:
    keys, wanted = zip(*rows, strict=True)
    batch = pa.record_batch(
        {
            "value": pa.array([b"%d" % number for number in range(len(rows))], pa.binary()),
            "KEY": pa.array(keys, pa.binary()),
            "partition": pa.array(wanted, pa.int32()),
        }
    )
    columns = shape(("value", "binary"), ("KEY", "binary"), ("partition", "integer"))
    expected: dict[int, list[bytes]] = {}
    for number, (key, partition) in enumerate(rows):
        chosen = partition if partition is not None else 4 if key is None else partition_of(key, 7)
        expected.setdefault(chosen, []).append(b"%d" % number)
    found = {part.partition: part.rows.column("value").to_pylist() for part in routed(batch, columns, 7, 4)}
    assert found == expected


def test_text_of_any_width_is_bytes_and_headers_may_be_slices() -> None:
    pair = pa.struct([("name", pa.string()), ("value", pa.binary())])
    batch = pa.record_batch(
        {
            "value": pa.array(["a", "b", None, "ü"], pa.large_string()),
            "headers": pa.array([[("x", b"0")], [("n", b"1"), ("m", b"")], None, []], pa.list_(pair)),
            "timestamp": pa.array([1, 2, 3, 4], pa.timestamp("us", "UTC")),
        }
    ).slice(1)
    header = {
        "type": "array",
        "containsNull": True,
        "elementType": StructType().add("name", "string").add("value", "binary").jsonValue(),
    }
    columns = shape(("value", "string"), ("headers", header), ("timestamp", "timestamp"))
    ((partition, rows),) = routed(batch, columns, 3, 2)
    assert partition == 2
    assert rows.column("value").to_pylist() == [b"b", None, "ü".encode()]
    assert rows.column("headers").to_pylist() == [[(b"n", b"1"), (b"m", b"")], [], []]
    assert rows.column("timestamp").cast(pa.int64()).to_pylist() == [2000, 3000, 4000]


@pytest.mark.parametrize(
    "fields, as_json, words",
    [
        ([("value", "binary"), ("VALUE", "binary")], False, "two columns"),
        ([("value", "binary"), ("a", "long"), ("b", "long")], False, "'a', 'b'"),
        ([("value", "binary"), ("partition", "string")], False, "'partition' is string"),
        ([("value", "binary"), ("headers", "string")], False, "array<struct"),
        ([("value", "binary"), ("timestamp", "long")], False, "'timestamp' is bigint"),
        ([("key", "binary")], True, "no column to make JSON of"),
    ],
)
def test_a_schema_that_is_no_record_is_refused(fields: list[tuple[str, str]], as_json: bool, words: str) -> None:
    with pytest.raises(FlowMeshSparkError) as raised:
        shape(*fields, as_json=as_json)
    assert words in raised.value.message
    assert raised.value.condition is Condition.BAD_SCHEMA


@pytest.mark.parametrize(
    "column, content, words",
    [
        ("partition", pa.array([7], pa.int32()), "partitions 0 to 6"),
        ("partition", pa.array([-1], pa.int32()), "it is -1"),
        ("timestamp", pa.array([2**62], pa.timestamp("us", "UTC")), "1677 to 2262"),
        (
            "headers",
            pa.array([[("n" * 1025, b"")]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            "1024",
        ),
        (
            "headers",
            pa.array([[(None, b"")]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            "null",
        ),
    ],
)
def test_a_row_that_is_no_record_is_refused_with_its_column(column: str, content: Any, words: str) -> None:
    batch = pa.record_batch({"value": pa.array([b"v"]), column: content})
    with pytest.raises(FlowMeshSparkError) as raised:
        list(routed(batch, RowShape({"value": 0, column: 1}, ()), 7, 0))
    assert raised.value.condition is Condition.BAD_RECORD
    assert f"'{column}'" in raised.value.message
    assert words in raised.value.message


NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1)
WORDS = st.none() | st.text(st.characters(codec="utf-8"), max_size=8)
FLOATS = st.none() | st.floats()


@given(st.lists(st.tuples(NUMBERS, WORDS, FLOATS, st.none() | st.booleans()), min_size=1, max_size=30), WORDS)
def test_columns_become_json_that_says_the_same(rows: list[tuple[Any, ...]], name: str | None) -> None:
    kinds = (pa.int64(), pa.string(), pa.float64(), pa.bool_())
    names = ["n", name or "", "x y", 'quo"ted']
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    found = [msgspec.json.decode(value) for value in json_objects(columns, names).to_pylist()]
    expected = []
    for row in rows:
        cells = [None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row]
        expected.append(dict(zip(names, cells, strict=True)))
    assert found == expected


def test_other_types_are_written_value_by_value() -> None:
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    columns = {
        "when": pa.array([moment], pa.timestamp("us", "UTC")),
        "day": pa.array([moment.date()]),
        "amount": pa.array([decimal.Decimal("1.20")]),
        "bytes": pa.array([b"\x00\xff"]),
        "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        "row": pa.array([{"a": [1, None]}]),
        "list": pa.array([[]], pa.list_(pa.string())),
    }
    (found,) = json_objects(list(columns.values()), list(columns)).to_pylist()
    assert found == (
        b'{"when":"2026-01-01T00:00:00Z","day":"2026-01-01","amount":1.20,"bytes":"AP8=",'
        b'"map":{"k":1},"row":{"a":[1,null]},"list":[]}'
    )
