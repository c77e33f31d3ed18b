"""A process that only reads, beside a writer that rolls, trims and is killed: right records in order, or a clean no."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from flowmesh.assemble import verify_local_log
from flowmesh.base.limits import KIB
from tests.process.children import Child, running
from tests.process.settings import Settings

LIVES = 5
VERIFICATIONS = 60


def live(settings: Settings, chance: random.Random) -> int:
    """One life of the writer; the end of what it had acknowledged, 0 if it came to nothing."""
    with running("writer_process", settings) as writer:
        writer.wait_for("trim", chance.randint(12, 25))
        writer.listen(chance.uniform(0, 0.02))
        writer.kill()
    assert writer.said("refused") == []
    return max((end for _, end in writer.acknowledged()), default=0)


def require_alive(reader: Child) -> None:
    reader.listen(0)
    assert reader.process.poll() is None, "the reader met something that was not right"


@pytest.mark.parametrize("policy", ["always", "batch", "interval:10"])
def test_a_reader_beside_a_dying_writer_sees_only_what_is_right(tmp_path: Path, policy: str) -> None:
    chance = random.Random(policy)
    settings = Settings(
        directory=str(tmp_path / "log"), policy=policy, retention_bytes=300 * KIB, roll_every=13, trim_every=7
    )
    acknowledged_end = 0
    with running("reader_process", settings) as reader:
        assert live(settings, chance) > 0
        assert reader.wait_for("seen")
        for number in range(LIVES):
            if number == 1:
                reader.process.send_signal(signal.SIGSTOP)  # so that trims overtake it
            acknowledged_end = max(acknowledged_end, live(settings, chance))
            reader.process.send_signal(signal.SIGCONT)
            require_alive(reader)
        if policy != "interval:10":
            end = 0
            for _ in range(100):
                reader.listen(0.1)
                end = int(reader.said("seen")[-1][0]) if reader.said("seen") else 0
                if end >= acknowledged_end:
                    break
            assert end >= acknowledged_end, "an acknowledged record cannot be read by another process"
        Path(f"{settings.directory}.stop").touch()
        assert reader.finish() == 0
    ((_, records, jumps),) = reader.said("ended")
    assert int(records) > 0
    assert int(jumps) > 0, "no trim ever overtook the reader"


def test_verify_beside_a_writer_that_trims_finds_nothing_wrong(tmp_path: Path) -> None:
    settings = Settings(directory=str(tmp_path / "log"), retention_bytes=300 * KIB, roll_every=13, trim_every=5)
    with running("writer_process", settings) as writer:
        assert writer.wait_for("trim", 20)
        for _ in range(VERIFICATIONS):
            report = verify_local_log(settings.directory)
            assert report.sound, report.damage
            writer.listen(0)
        writer.kill()
    assert writer.said("refused") == []
