"""A real writer, killed with SIGKILL over and over: whatever was acknowledged is there, right, and in its place."""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flowmesh.assemble import open_local_log, verify_local_log
from flowmesh.base.limits import MIB
from flowmesh.log.view import LogView
from tests.process.children import Child, running
from tests.process.settings import Settings
from tests.process.values import check_view

POLICIES = ("always", "batch", "interval:20")
CYCLES = {"always": 16, "batch": 17, "interval:20": 17}
SOAK_CYCLES = 334
SOAK_SECONDS_EACH = int(os.environ.get("KILL_SOAK_SECONDS", "200"))
VERIFY_EVERY = 10
Moment = Callable[[Child, random.Random], None]


def while_it_opens(child: Child, chance: random.Random) -> None:
    child.wait_for("opening")
    child.listen(chance.uniform(0, 0.02))


def just_after_it_opened(child: Child, chance: random.Random) -> None:
    child.wait_for("opened")
    child.listen(chance.uniform(0, 0.01))


def while_it_appends(child: Child, chance: random.Random) -> None:
    child.wait_for("ack", chance.randint(1, 300))
    child.listen(chance.uniform(0, 0.05))


def while_it_rolls(child: Child, chance: random.Random) -> None:
    child.wait_for("roll", chance.randint(1, 12))
    child.listen(chance.uniform(0, 0.002))


def while_it_trims(child: Child, chance: random.Random) -> None:
    child.wait_for("trim", chance.randint(1, 12))
    child.listen(chance.uniform(0, 0.002))


MOMENTS: tuple[Moment, ...] = (
    while_it_opens, just_after_it_opened, while_it_appends, while_it_appends, while_it_rolls, while_it_trims,
)  # fmt: skip


class KilledLog:
    """One log over many lives of its writer, and what the test knows of it: the seed, and what was acknowledged."""

    def __init__(self, directory: Path, policy: str, seed: int) -> None:
        self.directory = directory
        self.settings = Settings(
            directory=str(directory), policy=policy, seed=seed, retention_bytes=2 * MIB, roll_every=17, trim_every=29
        )
        self.chance = random.Random(seed)
        self.acknowledged_end = 0
        self.acknowledged_records = 0
        self.checked_records = 0
        self.cycles = 0

    def cycle(self) -> None:
        moment = self.chance.choice(MOMENTS)
        with running("writer_process", self.settings) as child:
            moment(child, self.chance)
            child.kill()
        self._note(child)
        self.cycles += 1
        if self.chance.random() < 0.5:
            self._recover(self.directory)
        else:
            # What the next life finds must now and then be what the kill left, not what a tidy test left.
            copy = self.directory.with_name("copy")
            if self.directory.exists():
                shutil.copytree(self.directory, copy)
                self._recover(copy)
                shutil.rmtree(copy)
        if self.cycles % VERIFY_EVERY == 0:
            self.verify()

    def verify(self) -> None:
        report = verify_local_log(self.directory)
        assert report.sound, report.damage

    def _note(self, child: Child) -> None:
        """Acknowledgements come in order, never twice, and never for an offset of an earlier life."""
        assert child.said("refused") == []
        expected = None
        for (found,) in child.said("opened"):
            expected = int(found)
            assert expected >= self.acknowledged_end, "an acknowledged record was lost when the log was opened"
        for base, end in child.acknowledged():
            assert base == expected
            expected = end
            self.acknowledged_end = end
            self.acknowledged_records += end - base

    def _recover(self, directory: Path) -> None:
        if not (directory / "chain.json").exists():
            assert self.acknowledged_end == 0
            return
        log = open_local_log(directory, self.settings.options())
        try:
            view = log.view
            assert view.end_offset >= self.acknowledged_end, "an acknowledged record is not there"
            self._require_trimmed_no_further_than_allowed(view)
            self.checked_records += check_view(self.settings.seed, view)
        finally:
            log.close()

    def _require_trimmed_no_further_than_allowed(self, view: LogView) -> None:
        if view.start_offset:
            assert view.size_bytes >= self.settings.retention_bytes - 2 * self.settings.segment_bytes

    def tell(self, capfd: pytest.CaptureFixture[str]) -> None:
        with capfd.disabled():
            sys.stderr.write(
                f"\nkill -9, {self.settings.policy}, seed {self.settings.seed}: N = {self.cycles} kills,"
                f" {self.acknowledged_records} records acknowledged, {self.checked_records} read back, none lost;"
                f" rate of loss below 3/N = {3 / self.cycles:.4f}\n"
            )


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_acknowledged_is_lost_to_kill_9(tmp_path: Path, policy: str, capfd: pytest.CaptureFixture[str]) -> None:
    log = KilledLog(tmp_path / "log", policy, int(os.environ.get("KILL_SEED", "20260131")))
    for _ in range(CYCLES[policy]):
        log.cycle()
    log.verify()
    assert log.acknowledged_records > 0
    log.tell(capfd)


@pytest.mark.soak
@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_acknowledged_is_lost_to_a_thousand_kills(
    tmp_path: Path, policy: str, capfd: pytest.CaptureFixture[str]
) -> None:
    log = KilledLog(tmp_path / "log", policy, int(os.environ.get("KILL_SEED", str(time.time_ns() % 2**32))))
    with capfd.disabled():
        sys.stderr.write(f"\nKILL_SEED={log.settings.seed}\n")
    deadline = time.monotonic() + SOAK_SECONDS_EACH
    while log.cycles < SOAK_CYCLES and time.monotonic() < deadline:
        log.cycle()
    log.verify()
    log.tell(capfd)
