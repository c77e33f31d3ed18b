"""The page about the Python client is true: its programs run beside a real node, and print what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from flowmesh.testing import NodeProcess
from tests.tidy.tree import ROOT

PAGE = (ROOT / "docs" / "sdk.md").read_text(encoding="utf-8")
PROGRAM = re.compile(r"^```python\n(.*?)^```\n+```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = PROGRAM.findall(PAGE)
URL = "flowmesh://127.0.0.1:7401"


def test_every_program_but_the_fixture_has_its_output() -> None:
    assert len(PROGRAMS) == PAGE.count("```python\n") - 1 >= 6


def test_the_programs_print_what_the_page_says(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "flowmesh-data") as node:
        for program, output in PROGRAMS:
            assert URL in program
            command = [sys.executable, "-c", program.replace(URL, node.url)]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
            if done.returncode:
                pytest.fail(f"this program failed:\n{program}\n{done.stderr}")
            assert done.stdout == output
