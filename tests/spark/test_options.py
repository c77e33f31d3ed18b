"""Options: parsed by name without case, refused with the nearest name, and secrets that nobody is shown."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from flowmesh.spark.errors import Condition, FlowMeshSparkError
from flowmesh.spark.options import (
    READ_OPTIONS,
    NodeAccess,
    StreamName,
    checked,
    node_access,
    stream_name,
)
from flowmesh.spark.schema import ddl_of, value_fields

ROOT = Path(__file__).resolve().parents[2]


def parsed(**given: str) -> dict[str, Any]:
    return checked(given, READ_OPTIONS)


def refused(**given: str) -> FlowMeshSparkError:
    with pytest.raises(FlowMeshSparkError) as caught:
        ddl_of(parsed(**given))
    return caught.value


def test_names_are_compared_without_case_and_values_parsed() -> None:
    found = parsed(STARTINGOFFSETS='{"0": 12, "1": -2, "2": "latest"}', splitbytes="1GiB", hold="24h", columns="`a`, b")
    assert found["startingOffsets"] == {0: 12, 1: "earliest", 2: "latest"}
    assert (found["splitBytes"], found["hold"], found["columns"]) == (1 << 30, 86_400 * 10**9, ("a", "b"))
    assert (found["onDataLoss"], found["reconnectTimeout"]) == ("fail", 120 * 10**9)


@pytest.mark.parametrize(
    "given, nearest",
    [
        ("startingOffset", "startingOffsets"),
        ("tokn", "token"),
        ("qqqqqqqqq", "There are"),
        ("valuesSchema", "valueSchema"),
    ],
)
def test_a_name_that_is_not_known_is_refused_with_the_nearest(given: str, nearest: str) -> None:
    error = refused(**{given: "x"})
    assert error.condition is Condition.UNKNOWN_OPTION
    assert nearest in str(error)


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "12"},
        {"startingOffsets": '{"0": 1.5}'},
        {"startingOffsets": "{0: 1}"},
        {"startingTimestamp": "soon"},
        {"hold": "1 day"},
        {"maxRecordsPerTrigger": "0"},
        {"maxBytesPerTrigger": "-1"},
        {"partitions": "a"},
        {"columns": " , "},
        {"verify": "yes"},
        {"columns": "offset,offset"},
        {"columns": "_error"},
        {"valueColumn": "data"},
        {"valueSchema": "a INT, a INT"},
        {"valueSchema": "{"},
    ],
)
def test_a_value_that_cannot_be_used_names_its_option(given: dict[str, str]) -> None:
    error = refused(**given)
    assert error.condition is Condition.BAD_OPTION
    assert error.option == next(iter(given))
    assert f"option '{error.option}'" in str(error)


def test_a_stream_is_named_in_one_way_only() -> None:
    assert stream_name(parsed(path="a")) == StreamName("default", "default", "a")
    assert stream_name(parsed(stream="t/n/a", path="t/n/a", tenant="other")) == StreamName("t", "n", "a")
    assert stream_name(parsed()) is None
    for given in ({"stream": "a", "path": "b"}, {"stream": "a/b"}, {"stream": "A"}, {"stream": "x/../a"}):
        with pytest.raises(FlowMeshSparkError):
            stream_name(parsed(**given))


def test_secrets_show_themselves_to_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLOWMESH_TOKEN", "from-the-environment")
    access = node_access(parsed(url="flowmesh://h", token="top-secret"))
    assert access is not None
    assert "top-secret" not in repr(access)
    assert pickle.loads(pickle.dumps(access)).token_text() == "top-secret"
    found = node_access(parsed(url="flowmesh://h"))
    assert found is not None
    assert found.token_text() == "from-the-environment"
    (tmp_path / "token").write_text("first\n")
    rotated = node_access(parsed(url="flowmesh://h", tokenFile=str(tmp_path / "token")))
    assert rotated is not None
    (tmp_path / "token").write_text("second\n")
    assert rotated.token_text() == "second"
    (tmp_path / "token").unlink()
    assert rotated.token_text() == "first", "an executor that cannot see the file has what the driver read"


def test_no_token_is_an_error_that_says_where_to_put_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLOWMESH_TOKEN", raising=False)
    monkeypatch.delenv("FLOWMESH_TOKEN_FILE", raising=False)
    with pytest.raises(FlowMeshSparkError) as caught:
        NodeAccess("flowmesh://h", None, None, None, 0).token_text()
    assert caught.value.condition is Condition.TOKEN_REFUSED


def test_errors_survive_their_way_through_spark() -> None:
    error = FlowMeshSparkError(Condition.DATA_LOST, "gone", option="onDataLoss", hint="Skip it.")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "[FLOWMESH_DATA_LOST] gone Skip it."
    assert (again.condition, again.option) == (Condition.DATA_LOST, "onDataLoss")


def test_a_schema_is_cut_at_its_own_commas() -> None:
    text = "a INT, `b,c` STRUCT<x: INT, y: DECIMAL(10, 2)> COMMENT 'one, two', d ARRAY<STRING>"
    assert [field.name for field in value_fields(text)] == ["a", "b,c", "d"]
    as_json = '{"type":"struct","fields":[{"name":"a b","type":"long","nullable":true,"metadata":{}}]}'
    assert [field.ddl for field in value_fields(as_json)] == ["`a b` bigint"]
    assert ddl_of(parsed(valueSchema=text, columns="d,offset,a")) == "d ARRAY<STRING>, offset BIGINT, a INT"


def test_the_page_lists_every_option_and_no_other() -> None:
    page = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (.+) \|$", page.partition("### Options of a read")[2], re.MULTILINE)
    shown = {name: (default.strip().strip("`"), meaning) for name, default, meaning in rows}
    for option in READ_OPTIONS:
        assert shown.get(option.name) == (option.default or "–", option.meaning), option.name
    assert {name for name in shown if not name.startswith("FLOWMESH_")} == {option.name for option in READ_OPTIONS}


def test_the_page_lists_every_condition() -> None:
    page = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(FLOWMESH_\w+)` \|", page, re.MULTILINE)) == {each.value for each in Condition}
