"""The demo, from end to end, with few records: it must behave, and leave nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

from tests.tidy.tree import ROOT


def demo(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / "demo_log.py"), *options]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)


def test_the_demo_behaves_and_cleans_up(tmp_path: Path) -> None:
    done = demo(tmp_path, "--records", "20000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for words in (
        "no acknowledged record was lost",
        "all 20,000 records are what was written",
        "failing its checksum; offsets [",
        "reading there is refused",
        "the chain alone says: sound",
        "history was rewritten",
        "All of it behaved",
    ):
        assert words in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_demo_keeps_its_files_on_request(tmp_path: Path) -> None:
    done = demo(tmp_path, "--records", "20000", "--keep")
    assert done.returncode == 0, done.stdout + done.stderr
    (kept,) = tmp_path.iterdir()
    assert {path.name for path in kept.iterdir()} == {"orders", "forged", "key.pem", "checkpoint.json"}
    assert str(kept) in done.stdout


def test_too_few_records_are_refused(tmp_path: Path) -> None:
    assert demo(tmp_path, "--records", "10").returncode == 2
