"""A directory copied while its writer stands still is a log of its own that holds all that was acknowledged."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from flowmesh.assemble import open_local_log, verify_local_log
from flowmesh.base.limits import MIB
from tests.process.children import PATIENCE_S, Child, running
from tests.process.settings import Settings
from tests.process.values import check_view

COPIES = 6


def stop(child: Child) -> None:
    """SIGSTOP, and waits until no thread is inside a system call any more."""
    child.process.send_signal(signal.SIGSTOP)
    tasks = Path(f"/proc/{child.process.pid}/task")
    deadline = time.monotonic() + PATIENCE_S
    while any(_state(task) != "T" for task in tasks.iterdir()):
        assert time.monotonic() < deadline, "the child does not stop"
        time.sleep(0.001)
    child.listen(0.01)


def _state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the states of threads are read from /proc")
@pytest.mark.parametrize("policy", ["always", "batch", "interval:20"])
def test_a_copy_of_a_stopped_writers_directory_holds_everything_acknowledged(tmp_path: Path, policy: str) -> None:
    chance = random.Random(policy)
    settings = Settings(
        directory=str(tmp_path / "log"), policy=policy, retention_bytes=1 * MIB, roll_every=17, trim_every=29
    )
    with running("writer_process", settings) as child:
        assert child.wait_for("ack")
        for number in range(COPIES):
            child.listen(chance.uniform(0, 0.1))
            stop(child)
            copy = tmp_path / f"copy-{number}"
            shutil.copytree(settings.directory, copy)
            acknowledged_end = child.acknowledged()[-1][1]
            child.process.send_signal(signal.SIGCONT)
            log = open_local_log(copy, settings.options())
            try:
                assert log.view.end_offset >= acknowledged_end
                check_view(settings.seed, log.view)
            finally:
                log.close()
            assert verify_local_log(copy).sound
        child.kill()
    assert child.said("refused") == []
