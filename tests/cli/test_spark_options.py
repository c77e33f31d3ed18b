"""Commands that are Spark jobs: quiet while all is well, and with the words of Java where Spark cannot start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import append, numbers, run


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
    append(tmp_path / "log", stdin=numbers(0, 1000))
    return tmp_path / "log"


def test_nothing_is_said_but_the_result(log: Path, tmp_path: Path) -> None:
    done = run("archive", "run", log, "--to", tmp_path / "cold", "--include-open")
    assert done.returncode == 0
    assert done.stdout.startswith(b"archived 1,000 records in 1 file to ")
    assert done.stderr == b""


def test_a_spark_that_cannot_start_is_explained(log: Path, tmp_path: Path) -> None:
    done = run("archive", "run", log, "--to", tmp_path / "cold", "--master", "elsewhere")
    assert done.returncode == 1
    said = done.stderr.decode()
    assert "Master must either be yarn or start with spark" in said
    assert "error: [FLOWMESH_FAILED] Spark does not start: " in said
    assert "Traceback" not in said
