"""The runs of pipelines: remembered, told apart, and not believed when their process is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flowmesh.base.errors import AlreadyOpen, BadRequest
from flowmesh.pipelines.registry import (
    KILLED,
    RUNS_MAX,
    PipelineRun,
    QueryRun,
    Registry,
    new_run,
    state_directory,
)

SECOND_NS = 1_000_000_000
START_NS = 1_767_225_600 * SECOND_NS
_CHILD = """
import sys
from pathlib import Path
from flowmesh.pipelines.registry import Registry, new_run
run = new_run("orders", Path("orders.yaml"), once=False, now_ns=int(sys.argv[2]))
with Registry(Path(sys.argv[1])).running(run, int(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
"""


def run_once(registry: Registry, name: str = "orders", at_ns: int = START_NS) -> PipelineRun:
    run = new_run(name, Path(f"{name}.yaml"), once=True, now_ns=at_ns)
    with registry.running(run, at_ns) as file:
        run.queries.append(QueryRun("a", batch=3, rows_in=10, lag=4))
        run.state = "finished"
        file.write()
    return run


def child(state: Path, at_ns: int = START_NS) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _CHILD, str(state), str(at_ns)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_run_is_remembered_with_its_queries(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    run = run_once(registry)
    assert registry.runs() == [run]
    assert registry.runs("others") == []
    assert registry.runs()[0].lag == 4
    assert list(tmp_path.rglob(".run*")) == []


def test_the_newest_comes_first_and_the_oldest_are_forgotten(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    for number in range(RUNS_MAX + 3):
        run_once(registry, at_ns=START_NS + number * SECOND_NS)
    run_once(registry, "older", START_NS - 1)
    found = registry.runs()
    assert len(found) == RUNS_MAX + 1
    assert [found[0].started, found[-1].name] == ["2026-01-01T00:00:22.000000000Z", "older"]


def test_a_pipeline_runs_once_at_a_time_and_a_killed_one_is_found_out(tmp_path: Path) -> None:
    registry, process = Registry(tmp_path), child(tmp_path)
    try:
        assert [(run.state, run.pid) for run in registry.runs()] == [("running", process.pid)]
        with pytest.raises(AlreadyOpen, match=f"as process {process.pid}"):
            run_once(registry, at_ns=START_NS + 1)
        run_once(registry, "others")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    (killed,) = registry.runs("orders")
    assert (killed.state, killed.error) == ("stopped", KILLED)
    run_once(registry, at_ns=START_NS + 1)
    assert [(run.state, run.error) for run in registry.runs("orders")] == [("finished", None), ("stopped", KILLED)]


def test_an_older_run_that_was_killed_is_not_taken_for_the_one_that_runs(tmp_path: Path) -> None:
    first = child(tmp_path)
    first.kill()
    first.communicate()
    second = child(tmp_path, START_NS + 1)
    try:
        assert [run.state for run in Registry(tmp_path).runs()] == ["running", "stopped"]
    finally:
        second.kill()
        second.communicate()


def test_files_of_others_are_passed_over(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    run_once(registry)
    directory = tmp_path / "pipelines" / "orders"
    (directory / f"run-{START_NS:019d}-1.json").write_text("{")
    (directory / "notes.txt").write_text("mine")
    (tmp_path / "pipelines" / "file").write_text("")
    assert len(registry.runs()) == 1


def test_where_runs_are_remembered(tmp_path: Path) -> None:
    assert state_directory({"FLOWMESH_STATE": str(tmp_path)}) == tmp_path
    assert state_directory({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "flowmesh"
    assert state_directory({}) == Path(os.path.expanduser("~")) / ".local" / "state" / "flowmesh"


def test_a_name_that_leads_elsewhere_is_refused() -> None:
    with pytest.raises(BadRequest):
        new_run("../x", Path("x"), once=True, now_ns=0)
