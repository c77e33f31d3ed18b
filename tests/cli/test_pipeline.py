"""`flowmesh pipeline` as a process: runs that end, are stopped, are killed and go on, and files that are refused."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowmesh.cli.pipeline_audience import PlainLines
from flowmesh.pipelines.registry import KILLED, PipelineRun, QueryRun
from flowmesh.testing import NodeProcess
from tests.cli.running import call
from tests.pipelines.commands import environment, events_of, flowmesh, going
from tests.pipelines.runs import send, values_of

_FILE = """
name: numbers
create_streams: true
sources:
  numbers: {stream: numbers, schema: "n BIGINT"}
steps:
  - {name: doubled, sql: SELECT n * 2 AS twice FROM numbers}
sinks:
  - {from: doubled, stream: doubled}
  - {from: doubled, console: true}
"""
_QUERIES = ["doubled-stream", "doubled-console"]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("pipeline-node") / "data", drain_timeout_s=1) as running:
        yield running


def listed(variables: dict[str, str], *arguments: str) -> Any:
    done = flowmesh("pipeline", "list", *arguments, "--json", variables=variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["runs"]


def has_rows(count: int) -> Any:
    return lambda event: (event["event"], event.get("query"), event.get("rows_out")) == ("progress", _QUERIES[0], count)


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.timeout(400)
def test_a_pipeline_runs_once_and_for_good_is_stopped_is_killed_and_goes_on_each_time(
    node: NodeProcess, tmp_path: Path
) -> None:
    file, log = tmp_path / "numbers.yaml", tmp_path / "log"
    file.write_text(_FILE)
    variables = environment(node, tmp_path / "state")
    run = ("pipeline", "run", file, "--master", "local[2]")
    send(node, "numbers", {"n": 1}, {"n": 2}, create=True)
    _ends_with_what_is_there(run, variables, node)
    send(node, "numbers", {"n": 3})
    _is_stopped(run, variables, log)
    send(node, "numbers", {"n": 4})
    _is_killed(run, variables, log)
    assert values_of(node, "doubled") == [{"twice": n} for n in (2, 4, 6, 8)]
    runs = listed(variables, "numbers", "--all")
    assert [(each["state"], each["mode"]) for each in runs] == [
        ("stopped", "continuous"), ("stopped", "continuous"), ("finished", "once"),
    ]  # fmt: skip
    assert [each["error"] for each in runs] == [KILLED, None, None]
    text = flowmesh("pipeline", "list", variables=variables).stdout
    titles, line, reason = text.splitlines()
    assert " ".join(titles.split()) == "pipeline state pid started batch rows in rows out rows/s lag"
    assert line.split()[:2] == ["numbers", "stopped"]
    assert reason.startswith("numbers, ")
    assert reason.endswith(KILLED)


def _ends_with_what_is_there(run: tuple[object, ...], variables: dict[str, str], node: NodeProcess) -> None:
    done = flowmesh(*run, "--once", "--json", variables=variables)
    assert done.returncode == 0, done.stderr
    events = events_of(done.stdout)
    assert (events[0]["event"], events[0]["pipeline"], events[0]["mode"]) == ("started", "numbers", "once")
    (rows,) = [event for event in events if event["event"] == "rows"]
    assert (rows["query"], rows["rows"], rows["more"]) == (_QUERIES[1], [{"twice": 2}, {"twice": 4}], False)
    ended = events[-1]
    assert (ended["event"], ended["state"], ended["error"], ended["lag"]) == ("ended", "finished", None, 0)
    assert [(each["query"], each["rows_in"], each["rows_out"]) for each in ended["queries"]] == [
        (query, 2, 2) for query in _QUERIES
    ]
    assert [line for line in done.stderr.splitlines() if "incubator modules" not in line] == []
    assert node.token not in done.stdout


def _is_stopped(run: tuple[object, ...], variables: dict[str, str], log: Path) -> None:
    with going(*run, variables=variables, log=log) as command:
        command.until(has_rows(1))
        pid = command.process.pid
        (shown,) = listed(variables)
        assert (shown["state"], shown["pid"]) == ("running", pid)
        second = flowmesh(*run, variables=variables)
        assert_refused(second, "runs already", f"as process {pid}")
        assert command.end(signal.SIGTERM) == 0
    ended = command.events[-1]
    assert (ended["event"], ended["state"], ended["error"]) == ("ended", "stopped", None)


def _is_killed(run: tuple[object, ...], variables: dict[str, str], log: Path) -> None:
    with going(*run, variables=variables, log=log) as command:
        command.until(has_rows(1))
        assert command.end(signal.SIGKILL) == -signal.SIGKILL
        (shown,) = listed(variables)
        assert (shown["state"], shown["error"], shown["pid"]) == ("stopped", KILLED, command.process.pid)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs of commands within this process are remembered; they know no node."""
    monkeypatch.setenv("FLOWMESH_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_file_is_only_checked_where_that_is_asked(tmp_path: Path, state: Path) -> None:
    (tmp_path / "numbers.yaml").write_text(_FILE)
    (tmp_path / "clean.py").write_text("def pipeline(spark, run):\n    raise SystemExit(3)\n")
    (tmp_path / "spark-pipeline.yml").write_text("name: Shop totals\nstorage: x\n")
    for file, kind, name in [
        ("numbers.yaml", "YAML", "numbers"),
        ("clean.py", "Python", "clean"),
        ("spark-pipeline.yml", "declarative", "shop-totals"),
    ]:
        done = call("pipeline", "run", tmp_path / file, "--check")
        assert (done.exit_code, done.stderr) == (0, "")
        assert done.stdout == f"{tmp_path / file}: {kind} pipeline '{name}' is well formed\n"
    assert not state.exists()


@pytest.mark.parametrize(
    "change, options, words",
    [
        (("sources:", "sorces:"), [], ["numbers.yaml: sorces: there is no such field", "Did you mean 'sources'?"]),
        (("n BIGINT", "${NO_SUCH}"), [], ["numbers.yaml: sources.numbers.schema:", "NO_SUCH"]),
        (("from: doubled, stream", "from: tripled, stream"), [], ["numbers.yaml: sinks[0].from:", "'tripled'"]),
        (("name: numbers", "name: [numbers"), [], ["is not YAML"]),
        (("", ""), ["--name", "no name"], ["name"]),
    ],
)
def test_a_wrong_file_is_refused_with_the_field_before_anything_starts(
    tmp_path: Path, state: Path, change: tuple[str, str], options: list[str], words: list[str]
) -> None:
    (tmp_path / "numbers.yaml").write_text(_FILE.replace(*change, 1))
    done = call("pipeline", "run", tmp_path / "numbers.yaml", *options)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    for word in words:
        assert word in done.stderr
    assert not state.exists()


def test_a_file_that_is_not_there_is_refused(tmp_path: Path, state: Path) -> None:
    for name in ("absent.yaml", "absent.py"):
        done = call("pipeline", "run", tmp_path / name)
        assert done.exit_code == 1
        assert f"there is no file {tmp_path / name}" in done.stderr


def test_where_nothing_was_run_the_list_is_empty(state: Path) -> None:
    assert json.loads(call("pipeline", "list", "--json").stdout) == {"runs": []}
    assert "no pipeline was run here yet" in call("pipeline", "list").stderr
    assert "no run of 'x'" in call("pipeline", "list", "x").stderr


def test_plain_lines_say_how_far_each_query_is(capsys: pytest.CaptureFixture[str]) -> None:
    run = PipelineRun("a", "a.yaml", 1, "once", "finished", "2026-01-01T00:00:00Z", "2026-01-01T00:00:02Z")
    run.queries = [QueryRun("b", 3, 1200, 7, 1, 600.4, 5), QueryRun("c")]
    lines = PlainLines()
    lines.started(run)
    lines.progress(run, run.queries)
    lines.progress(run, run.queries)
    lines.shown("c", ["n", "name"], [[1, "one"], [None, "none"]], True)
    lines.ended(run)
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "a: running once",
        "a: b: batch 3, 1,200 in, 7 out, 600 rows/s, 5 records behind, 1 row too late",
        "a: c: 0 in, 0 out, 0 rows/s",
    ]
    assert "-- c" in said.out
    assert said.out.splitlines()[5:6] == ["a: finished after 2.0 s"]
