"""The tour of `make demo`, with few orders: it must behave, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT


def tour(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "examples.demo_tour", *options]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.timeout(320)
def test_the_tour_behaves_and_cleans_up(tmp_path: Path) -> None:
    done = tour(tmp_path, "--orders", "20000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for words in (
        "kill -9 of the node",
        "all 150 windows of the stream 'revenue' are right",
        "left out as they should be",
        "dead letters: 20, each with its reason",
        "the log has dropped ",
        "as of the middle: 9,990 orders",
        "was changed: its hash is not the one that was archived",
        "cannot be served",
        "All of it behaved",
    ):
        assert words in done.stdout, done.stdout
    assert list(tmp_path.iterdir()) == []


def test_too_few_orders_are_refused(tmp_path: Path) -> None:
    done = tour(tmp_path, "--orders", "10")
    assert done.returncode == 2
    assert "10,000" in done.stderr
