"""The profile of a node runs, and its stages are those that the node walks through."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.node_profile import LOADS, profile
from benchmarks.profiled_node import STAGES

_LINE = re.compile(r"\| (?:loop|writer): ([^|]+) \|")


def test_every_stage_is_seen_under_some_load_and_every_load_has_its_table(tmp_path: Path) -> None:
    lines = list(profile(tmp_path, scale=0.002))
    assert [load.title for load in LOADS if not any(line.startswith(f"| {load.title}: ") for line in lines)] == []
    seen = {found[1] for line in lines if (found := _LINE.match(line))}
    assert {stage for _, stage, _, _ in STAGES} - seen == set()
