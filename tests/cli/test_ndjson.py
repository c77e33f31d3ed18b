"""NDJSON: a record to a line and back, and each way in which a line can be wrong."""

import json
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.assemble import read_local_log
from flowmesh.cli.ndjson import BadLine, InputRecord, as_lines, parse
from flowmesh.format.columns import TIME_BOUND, Record, decode
from tests.cli.running import append, call, records

TIMES = st.integers(1 - TIME_BOUND, TIME_BOUND - 1)
RECORDS = st.builds(
    Record,
    offset=st.integers(0, 2**63 - 1),
    time_ns=TIMES,
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=60),
    headers=st.lists(st.tuples(st.binary(max_size=8), st.binary(max_size=8)), max_size=4).map(tuple),
)


@given(st.lists(RECORDS, min_size=1, max_size=5))
def test_what_is_printed_can_be_taken_back(given_records: list[Record]) -> None:
    lines = as_lines(given_records).splitlines()
    assert len(lines) == len(given_records)
    for record, line in zip(given_records, lines, strict=True):
        taken = parse(line)
        assert (taken.value, taken.key, taken.headers, taken.time_ns) == (
            record.value,
            record.key,
            record.headers,
            record.time_ns,
        )


@given(st.binary(max_size=200))
def test_any_line_is_a_record_or_refused(line: bytes) -> None:
    with suppress(BadLine):
        assert isinstance(parse(line), InputRecord)


@pytest.mark.parametrize(
    "written, value",
    [
        ('"text"', b"text"),
        ('"\\u00e4\\n"', b"\xc3\xa4\n"),
        ('""', b""),
        ("null", None),
        (
            '{ "b" : [1, 2.50, 12345678901234567890123] , "a": "x y" }',
            b'{"b":[1,2.50,12345678901234567890123],"a":"x y"}',
        ),
        ("[]", b"[]"),
        ("7", b"7"),
        ("false", b"false"),
        ('{"base64": "/wA="}', b"\xff\x00"),
        ('{"base64": "/wA=", "other": 1}', b'{"base64":"/wA=","other":1}'),
    ],
)
def test_values(written: str, value: bytes | None) -> None:
    assert parse(f'{{"value":{written}}}'.encode()).value == value


@pytest.mark.parametrize(
    "line, field, words",
    [
        ("nonsense", None, "not JSON"),
        ('{"value":', None, "not JSON"),
        ("[1]", None, "Expected"),
        ('{"key":"a"}', "value", "missing"),
        ('{"valeu":1,"value":2}', "valeu", "unknown field"),
        ('{"value":1,"key":7}', "key", "Expected"),
        ('{"value":1,"key":{"base64":"!!"}}', "key", "base64"),
        ('{"value":{"base64":"!!"}}', "value", "base64"),
        ('{"value":{"base64":7}}', "value", "Expected"),
        ('{"value":1,"headers":{"a":3}}', "headers", "Expected"),
        ('{"value":1,"headers":[["a"]]}', "headers", "Expected"),
        ('{"value":1,"time":"yesterday"}', "time", "is no time"),
        ('{"value":1,"time":1.5}', "time", "Expected"),
        (f'{{"value":1,"time":{TIME_BOUND}}}', "time", "outside"),
        ('{"value":1,"time":"9999-01-01"}', "time", "outside"),
        ('{"value":"\\ud800"}', None, "not JSON"),
        (b'{"value":"\xff"}', "value", "not UTF-8"),
        (b'{"value":["\xff"]}', "value", "not UTF-8"),
        (b'{"value":1,"key":"\xff"}', None, "not UTF-8"),
        ('{"value":' + "[" * 100_000 + "]" * 100_000 + "}", None, "nested"),
    ],
)
def test_a_wrong_line_says_where_and_why(line: str | bytes, field: str | None, words: str) -> None:
    with pytest.raises(BadLine) as caught:
        parse(line if isinstance(line, bytes) else line.encode())
    assert caught.value.field == field
    assert words in str(caught.value.at(7))
    assert str(caught.value.at(7)).startswith("line 7, field" if field else "line 7:")


def test_keys_headers_times_and_bytes_round_trip_through_two_logs(tmp_path: Path) -> None:
    raw = b64encode(b"\xff\xfe").decode()
    given_lines = [
        {"key": "k", "value": "v", "headers": {"h": "1", "ü": ""}, "time": "2026-01-31T12:00:00.123456789Z"},
        {"value": {"n": 1}, "time": 1_700_000_000_000_000_001},
        {"key": {"base64": raw}, "value": {"base64": raw}, "headers": {"raw": {"base64": raw}}},
        {"value": None, "headers": [["twice", "1"], ["twice", "2"]]},
    ]
    append(tmp_path / "one", "--ndjson", stdin="".join(json.dumps(line) + "\n" for line in given_lines))
    first = call("log", "read", tmp_path / "one", "--json").stdout
    found = [json.loads(line) for line in first.splitlines()]
    assert [record["offset"] for record in found] == [0, 1, 2, 3]
    assert found[0]["time"] == "2026-01-31T12:00:00.123456789Z"
    assert found[1]["time"] == "2023-11-14T22:13:20.000000001Z"
    assert found[2]["time"] == found[3]["time"] > "2026"  # no time was given, so they have that of the append
    assert found[0]["headers"] == {"h": "1", "ü": ""}
    assert [record["value"] for record in found] == ["v", '{"n":1}', {"base64": raw}, None]
    assert [record["key"] for record in found] == ["k", None, {"base64": raw}, None]
    assert found[3]["headers"] == [["twice", "1"], ["twice", "2"]]
    append(tmp_path / "two", "--ndjson", stdin=first)
    assert call("log", "read", tmp_path / "two", "--json").stdout == first


def test_without_times_and_keys_no_such_columns_are_stored(tmp_path: Path) -> None:
    append(tmp_path, "--ndjson", stdin=b'{"value":"a"}\n{"value":"b"}\n')
    (block,) = read_local_log(tmp_path).blocks()
    columns = decode(block.batch)
    assert (columns.keys, columns.header_names, columns.time_deltas) == (None, None, None)
    assert len({record["time"] for record in records(tmp_path)}) == 1


def test_blank_lines_hold_no_record(tmp_path: Path) -> None:
    assert append(tmp_path, "--ndjson", stdin=b'\n{"value":"a"}\n  \r\n{"value":"b"}\n\n')["records"] == 2
