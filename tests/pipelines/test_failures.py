"""What goes wrong in a pipeline: records that do not fit, a query that fails midway, SQL that Spark refuses."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from flowmesh.base.errors import AlreadyExists
from tests.cli.running import call
from tests.pipelines.runs import Pipelines, Row, ordered

pytestmark = pytest.mark.timeout(240)

LETTERS = """
name: letters
create_streams: true
sources:
  readings: {stream: readings, schema: "n BIGINT, at TIMESTAMP", dead_letter: readings-bad}
steps:
  - {name: plain, sql: SELECT n FROM readings}
sinks:
  - {from: plain, stream: readings-good}
"""


def test_records_that_do_not_fit_become_dead_letters_and_the_others_go_on(pipelines: Pipelines) -> None:
    pipelines.create("readings", partitions=2)
    values: list[Row | bytes] = [{"n": 1}, b"not json", {"n": "many"}, {"n": 2}]
    headers: list[list[tuple[bytes, bytes]]] = [[], [], [(b"from", b"me")], []]
    pipelines.send("readings", *values, keys=[b"a", b"b", None, b"c"], headers=headers)
    pipelines.send("readings", {"n": 3}, {"n": 4, "at": "noon"}, partition=1)
    pipelines.once(LETTERS)
    pipelines.forget_last_batch("letters", "readings-dead-letter")
    pipelines.send("readings", b"", {"n": 5})
    second = pipelines.once(LETTERS)
    assert pipelines.rows("readings-good") == ordered({"n": n} for n in (1, 2, 3, 5))
    found = {}
    for record in pipelines.records("readings-bad"):
        said = {name.decode(): (value or b"").decode() for name, value in record.headers}
        place = int(said.pop("x-flowmesh-partition")), int(said.pop("x-flowmesh-offset"))
        assert place not in found, "a dead letter came twice"
        assert said.pop("x-flowmesh-stream") == "default/default/readings"
        found[place] = record.key, record.value, said
    assert {place: (key, value) for place, (key, value, _) in found.items()} == {
        (0, 1): (b"b", b"not json"),
        (0, 2): (None, b'{"n": "many"}'),
        (0, 4): (None, b""),
        (1, 1): (None, b'{"n": 4, "at": "noon"}'),
    }
    reasons = {place: said.pop("x-flowmesh-error") for place, (_, _, said) in found.items()}
    assert "not a JSON object" in reasons[0, 1]
    assert "not a JSON object" in reasons[0, 4]
    assert "/n" in reasons[0, 2]
    assert "noon" in reasons[1, 1]
    assert [said for _, _, said in found.values() if said] == [{"from": "me"}]
    assert {each.name: each.lag for each in second.run.queries} == {"plain-stream": 0, "readings-dead-letter": 0}


TWO = """
name: two
create_streams: true
sources:
  left: {stream: left, schema: "n BIGINT"}
  right: {stream: right, schema: "n BIGINT"}
steps:
  - {name: lefts, sql: SELECT n FROM left}
  - {name: rights, sql: SELECT n FROM right}
sinks:
  - {from: lefts, stream: lefts}
  - {from: rights, stream: rights}
"""


def test_a_query_that_fails_midway_ends_the_run_with_its_reason_and_the_next_run_goes_on(pipelines: Pipelines) -> None:
    pipelines.create("left", "right")
    for side in ("left", "right"):
        pipelines.send(side, {"n": 1}, {"n": 2})
    with pipelines.continuous(TWO) as going:
        going.until(lambda: [each.rows_out for each in going.run.queries] == [2, 2])
        pipelines.send("right", {"n": 3}, b"[broken", {"n": 4})
        failed = going.wait()
    assert failed.state == "failed"
    assert failed.error is not None
    assert failed.error.startswith("query 'rights-stream': [FLOWMESH_BAD_RECORD]")
    assert "partition 0, offset 3" in failed.error
    assert pipelines.remembered("two") == failed
    pipelines.send("left", {"n": 3})
    assert len(pipelines.rows("lefts")) == 2, "the other query was stopped too"
    error, again = pipelines.failing(TWO)
    assert "offset 3" in str(error)
    assert again.run.state == "failed"
    dropping = {side: {"stream": side, "schema": "n BIGINT", "bad_records": "drop"} for side in ("left", "right")}
    pipelines.once(TWO, sources=dropping)
    assert pipelines.rows("lefts") == [{"n": n} for n in (1, 2, 3)]
    assert pipelines.rows("rights") == [{"n": n} for n in (1, 2, 3, 4)]


WRONG = """
name: wrong
sources:
  here: {stream: wrongs, schema: "n BIGINT, at TIMESTAMP"}
steps:
  - {name: plain, sql: SELECT n FROM here}
sinks:
  - {from: plain, console: true}
"""
WINDOW = {"from": "here", "column": "at", "size": "1m", "select": {"x": "summ(n)"}}
HERE = {"stream": "wrongs", "schema": "n BIGINT, at TIMESTAMP"}


def step(**fields: Any) -> dict[str, list[Row]]:
    return {"steps": [{"name": "plain", **fields}]}


@pytest.mark.parametrize(
    "fields, field, words",
    [
        (step(sql="SELECT m FROM here"), "steps[0].sql", "`m`"),
        (step(sql="SELEC n FROM here"), "steps[0].sql", "SELEC"),
        (step(sql="SELECT n FROM there"), "steps[0].sql", "there"),
        (step(sql="SELECT n FROM here", watermark={"column": "at", "delay": "1s"}), "steps[0].sql", "at"),
        (step(window=WINDOW), "steps[0].window", "summ"),
        ({"sources": {"here": HERE | {"schema": "n WHOLE"}}}, "sources.here.schema", "WHOLE"),
        ({"sources": {"here": HERE | {"watermark": {"column": "then", "delay": "1s"}}}}, "sources.here", "then"),
        ({"sources": {"here": HERE | {"options": {"badRecord": "null"}}}}, "sources.here", "badRecords"),
        ({"sources": {"here": {"parquet": "nowhere"}}}, "sources.here", "nowhere"),
        ({"sinks": [{"from": "plain", "stream": "nowhere"}]}, "sinks[0].stream", "create_streams"),
        ({"sinks": [{"from": "plain", "stream": "wrongs", "key": "k"}]}, "sinks[0].key", "`k`"),
        ({"sources": {"here": HERE | {"stream": "nowhere"}}}, None, "nowhere"),
        (step(sql="SELECT count(*) AS c FROM here"), None, "sink 'plain-console'"),
    ],
)  # fmt: skip
def test_what_spark_refuses_is_said_with_the_field(
    pipelines: Pipelines, fields: dict[str, Any], field: str | None, words: str
) -> None:
    with suppress(AlreadyExists):
        pipelines.create("wrongs")
    error, going = pipelines.failing(WRONG, **fields)
    assert (error.field, going.run.state) == (field, "failed")
    assert words in str(error)
    assert "\n" not in str(error)
    assert going.run.error == str(error)
    assert field is None or str(error).startswith(f"{field}: ")


def test_a_run_that_fails_ends_the_command_with_one_and_is_listed_with_its_reason(
    pipelines: Pipelines, command_line: None, tmp_path: Path
) -> None:
    file = tmp_path / "failing.yaml"
    file.write_text(WRONG.replace("wrong", "mixed"))
    pipelines.create("mixeds")
    pipelines.send("mixeds", {"n": 1}, b"nothing")
    done = call("pipeline", "run", file, "--once")
    assert done.exit_code == 1
    assert done.stdout.startswith("mixed: failed after ")
    (line,) = [line for line in done.stderr.splitlines() if "FLOWMESH_BAD_RECORD" in line]
    assert line.startswith("error: query 'plain-console': [FLOWMESH_BAD_RECORD]")
    assert "partition 0, offset 1" in line
    (shown,) = json.loads(call("pipeline", "list", "--json").stdout)["runs"]
    assert (shown["state"], shown["error"]) == ("failed", line.removeprefix("error: "))
