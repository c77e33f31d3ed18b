"""A log far larger than any cache is written and read in memory that does not grow with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flowmesh.base.limits import GIB, MIB
from tests.process.children import running
from tests.process.settings import Settings

GROWTH_MAX_KIB = 150 * 1024
"""Room for eight appends in flight, a commit of them, one read, and the allocator's slack; far less than the log."""


def growth_kib(directory: Path, total_bytes: int) -> int:
    settings = Settings(directory=str(directory), segment_bytes=32 * MIB, total_bytes=total_bytes)
    try:
        with running("memory_process", settings) as child:
            while child.listen(60):
                assert child.process.poll() is None
            assert child.finish() == 0
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    ((baseline, _, read),) = child.said("rss")
    return int(read) - int(baseline)


def test_memory_stays_flat_over_a_log_of_256_mib(tmp_path: Path) -> None:
    assert growth_kib(tmp_path / "log", 256 * MIB) < GROWTH_MAX_KIB


@pytest.mark.soak
def test_memory_stays_flat_over_a_log_of_5_gib(tmp_path: Path) -> None:
    assert growth_kib(tmp_path / "log", 5 * GIB) < GROWTH_MAX_KIB
