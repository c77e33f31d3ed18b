"""A real process on a disk that really says no: EIO and ENOSPC at each system call, injected by a preloaded library."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from flowmesh.assemble import open_local_log, read_local_log, verify_local_log
from flowmesh.base.errors import ErrorCode
from flowmesh.base.limits import KIB
from flowmesh.log.sealing import Appended
from tests.process import shim
from tests.process.children import Child, running
from tests.process.settings import Settings
from tests.process.values import batch, check_view

POLICIES = ("always", "batch", "interval:5")
STORAGE_FAILED, DISK_FULL = ErrorCode.STORAGE_FAILED, ErrorCode.DISK_FULL


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim.compiled(tmp_path_factory.mktemp("shim"))


class Fault(NamedTuple):
    """One system call that fails; `code` is what appends then get, None where they must not notice."""

    name: str
    call: str
    path: str
    errno: int
    code: ErrorCode | None
    nth: int = 1
    times: int = 1


FAULTS = (
    Fault("fsync of the segment", "fdatasync", "segment-000001.log", errno.EIO, STORAGE_FAILED, nth=7),
    Fault("fsync of the segment without space", "fdatasync", "segment-000001.log", errno.ENOSPC, STORAGE_FAILED, nth=7),
    Fault("write", "pwritev", "segment-000001.log", errno.EIO, STORAGE_FAILED, nth=6),
    Fault("write without space", "pwritev", "segment-000001.log", errno.ENOSPC, DISK_FULL, nth=6, times=3),
    Fault("write over quota", "pwritev", "segment-000001.log", errno.EDQUOT, DISK_FULL, nth=6, times=3),
    Fault("write over the file size limit", "pwritev", "segment-000001.log", errno.EFBIG, STORAGE_FAILED, nth=6),
    Fault("making a segment", "open", "segment-000002.log", errno.EIO, STORAGE_FAILED),
    Fault("making a segment without space", "open", "segment-000002.log", errno.ENOSPC, DISK_FULL, times=3),
    Fault("header", "pwritev", "segment-000002.log", errno.EIO, STORAGE_FAILED),
    Fault("header without space", "pwritev", "segment-000002.log", errno.ENOSPC, DISK_FULL, times=3),
    Fault("fsync of a header", "fdatasync", "segment-000002.log", errno.EIO, STORAGE_FAILED),
    Fault("fsync of a header without space", "fdatasync", "segment-000002.log", errno.ENOSPC, DISK_FULL, times=3),
    Fault("fsync of the directory", "fsync", "/log$", errno.EIO, STORAGE_FAILED, nth=3),
    Fault("fsync of the directory without space", "fsync", "/log$", errno.ENOSPC, DISK_FULL, nth=3, times=3),
    Fault("mark", "pwritev", "durable.mark", errno.EIO, STORAGE_FAILED, nth=5),
    Fault("mark without space", "pwritev", "durable.mark", errno.ENOSPC, STORAGE_FAILED, nth=5),
    Fault("index at a roll", "rename", "segment-000001.idx", errno.EIO, STORAGE_FAILED),
    Fault("index at a roll without space", "pwritev", "segment-000001.idx.tmp", errno.ENOSPC, None),
    Fault("index at a roll without a descriptor", "open", "segment-000001.idx.tmp", errno.EMFILE, STORAGE_FAILED),
    Fault("asking for free space", "statvfs", "/log", errno.EIO, STORAGE_FAILED, nth=6),
)


class Run(NamedTuple):
    child: Child
    settings: Settings

    @property
    def acknowledged_end(self) -> int:
        return max((end for _, end in self.child.acknowledged()), default=0)


def run(settings: Settings, faults: Mapping[str, str]) -> Run:
    """One life of the child on its failing disk. It must end by itself, and the fault must have happened."""
    with running("fault_process", settings, faults) as child:
        assert child.finish() == 0, child.lines[-5:]
    assert shim.fired(Path(faults["FAULT_LOG"])), "the fault never happened: this test proves nothing"
    assert child.said("dead") == [], "an append was never answered"
    return Run(child, settings)


def require_everything_kept(done: Run) -> None:
    """What the child could still read, and then, on a sound disk, every acknowledged record, and appends that work."""
    directory, seed = done.settings.directory, done.settings.seed
    expected = None
    for base, end in done.child.acknowledged():
        assert expected is None or base == expected
        expected = end
    ((first, last),) = done.child.said("read")
    if not done.settings.policy.startswith("interval"):
        assert int(last) >= done.acknowledged_end, "durable data could not be read where the disk had failed"
    before = verify_local_log(directory)
    assert before.sound, before.damage
    check_view(seed, read_local_log(directory))
    log = open_local_log(directory, done.settings.options())
    try:
        assert log.view.end_offset >= done.acknowledged_end, "an acknowledged record was lost"
        assert log.view.start_offset >= int(first)
        results = log.write([batch(seed, log.written_end, 3)])
        assert isinstance(results[0], Appended)
        log.sync()
        check_view(seed, log.view)
    finally:
        log.close()
    report = verify_local_log(directory)
    assert report.sound, report.damage


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
def test_a_failing_call(tmp_path: Path, library: Path, fault: Fault, policy: str) -> None:
    directory = tmp_path / "log"
    settings = Settings(
        directory=str(directory), policy=policy, appends=120, in_flight=1 if fault.code is DISK_FULL else 4
    )
    # Where the interval gathers, the first segment sees few fsyncs: one when it is made, one before it is left.
    nth = min(fault.nth, 2) if policy.startswith("interval") and fault.call == "fdatasync" else fault.nth
    told = shim.environment(
        library, tmp_path / "fired", call=fault.call, path=fault.path, nth=nth, count=fault.times, errno=fault.errno
    )
    done = run(settings, told)
    refused = [code for (code,) in done.child.said("refused")]
    if fault.code is None:
        assert refused == []
    elif fault.code is STORAGE_FAILED:
        first = next(row for row, line in enumerate(done.child.lines) if line.startswith("refused"))
        assert set(refused) == {STORAGE_FAILED}
        assert [line for line in done.child.lines[first:] if line.startswith("ack")] == []
        assert len(refused) > settings.after_failure
        if fault.name.startswith("fsync of the segment"):
            assert read_local_log(directory).end_offset <= done.acknowledged_end, "what no fsync covered was shown"
    else:
        assert refused == [DISK_FULL] * fault.times
        assert done.child.lines[-3].startswith("ack"), "the log did not heal"
        assert done.child.lines[-1] == "closed"
    require_everything_kept(done)


@pytest.mark.parametrize("call, path, nth", [
    ("open", "segment-000002.log", 1),
    ("pwritev", "segment-000002.log", 1),
    ("fdatasync", "segment-000002.log", 1),
    ("fsync", "/log$", 3),
])  # fmt: skip
@pytest.mark.parametrize("seed", [2, 4])
def test_a_roll_without_space_leaves_nothing_that_contradicts_later_appends(
    tmp_path: Path, library: Path, call: str, path: str, nth: int, seed: int
) -> None:
    """The appends that follow are small enough for the old segment, and the process ends before a roll succeeds."""
    settings = Settings(
        directory=str(tmp_path / "log"), seed=seed, appends=200, in_flight=1, after_failure=80, stop_when_healed=True
    )
    told = shim.environment(library, tmp_path / "fired", call=call, path=path, nth=nth, count=0, errno=errno.ENOSPC)
    done = run(settings, told)
    assert {code for (code,) in done.child.said("refused")} == {DISK_FULL}
    require_everything_kept(done)


FLOOR_ATTEMPTS = 2
"""Of one trim: without space the indexes of what is to go are removed first, and it is tried once more."""
TRIM_FAULTS = (
    Fault("floor", "rename", "floor.json", errno.EIO, STORAGE_FAILED),
    Fault("floor without space", "pwritev", "floor.json.tmp", errno.ENOSPC, DISK_FULL, times=3 * FLOOR_ATTEMPTS),
    Fault("floor that cannot be named", "rename", "floor.json", errno.ENOSPC, DISK_FULL, times=3 * FLOOR_ATTEMPTS),
    Fault("fsync of the floor", "fdatasync", "floor.json.tmp", errno.EIO, STORAGE_FAILED),
    Fault("removing a segment", "unlink", "segment-000001.log", errno.EIO, STORAGE_FAILED),
    Fault("removing an index", "unlink", "segment-000001.idx", errno.EIO, STORAGE_FAILED),
)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("fault", TRIM_FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
def test_a_trim_that_fails(tmp_path: Path, library: Path, fault: Fault, policy: str) -> None:
    settings = Settings(
        directory=str(tmp_path / "log"), policy=policy, appends=250, in_flight=4, trim_every=20,
        retention_bytes=100 * KIB,
    )  # fmt: skip
    told = shim.environment(
        library, tmp_path / "fired", call=fault.call, path=fault.path, count=fault.times, errno=fault.errno
    )
    done = run(settings, told)
    refused = [code for (code,) in done.child.said("trim-refused")]
    assert refused[0] == fault.code
    if fault.code is DISK_FULL:
        assert refused == [DISK_FULL] * (fault.times // FLOOR_ATTEMPTS)
        assert done.child.said("refused") == []
        assert any(int(count) > 0 for (count,) in done.child.said("trimmed")), "no trim succeeded afterwards"
    else:
        assert set(refused) == {STORAGE_FAILED}
        assert {code for (code,) in done.child.said("refused")} == {STORAGE_FAILED}
    require_everything_kept(done)


@pytest.mark.parametrize("short", [1, 1000])
def test_writes_that_the_system_cuts_short_are_finished(tmp_path: Path, library: Path, short: int) -> None:
    settings = Settings(directory=str(tmp_path / "log"), appends=40 if short == 1 else 300, in_flight=4)
    told = shim.environment(library, tmp_path / "fired", call="pwritev", path="/log/", nth=5, count=20_000, short=short)
    done = run(settings, told)
    assert done.child.said("refused") == []
    assert len(done.child.acknowledged()) == settings.appends * settings.in_flight
    require_everything_kept(done)


def test_a_shim_that_is_told_nothing_changes_nothing(tmp_path: Path, library: Path) -> None:
    settings = Settings(directory=str(tmp_path / "log"), appends=40)
    told = shim.environment(library, tmp_path / "fired", call="pwritev", path="no such file", errno=errno.EIO)
    with running("fault_process", settings, told) as child:
        assert child.finish() == 0
    assert shim.fired(tmp_path / "fired") == []
    assert len(child.acknowledged()) == settings.appends * settings.in_flight
    assert child.lines[-1] == "closed"
