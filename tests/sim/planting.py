"""What tests that plant bugs share: a bug, how to find it, and disks that leave something out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from flowmesh.sim.explore import Plan, explore

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]
SEEDS = (1, 2, 3)


class Bug(NamedTuple):
    what: str
    plant: Plant
    piece: str
    """A workload to explore, or one of the pieces that a test module has besides."""
    sign: str
    """What the finding must say, so that a bug is not caught by accident."""
    plan: Plan = Plan(violations_max=6)


class Through:
    """A disk that passes everything on, but for what a subclass takes away."""

    def __init__(self, disk: Any) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)


class NoDirectorySync(Through):
    def sync_directory(self, path: str) -> None:
        """Forgotten."""


def explored(workload: str, plan: Plan) -> list[str]:
    """The exploration itself, until it has found something."""
    for seed in SEEDS:
        result = explore(workload, seed, plan)
        if result.violations:
            return [violation.what for violation in result.violations]
    return []


def require_caught(bug: Bug, found: list[str]) -> None:
    assert found, f"{bug.what}: nothing noticed"
    assert any(bug.sign in what for what in found), found
