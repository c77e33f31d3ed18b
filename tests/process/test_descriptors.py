"""A process that may open few files: a log of many segments is read with few, and running out corrupts nothing."""

from __future__ import annotations

import errno
from pathlib import Path

from flowmesh.assemble import open_local_log, verify_local_log
from flowmesh.base.limits import OPEN_FILES_PER_LOG_MAX
from tests.process.children import running
from tests.process.descriptor_process import SPARE
from tests.process.settings import Settings
from tests.process.values import check_view


def test_running_out_of_descriptors_corrupts_nothing(tmp_path: Path) -> None:
    settings = Settings(directory=str(tmp_path / "log"), appends=1_500)
    with running("descriptor_process", settings) as child:
        assert child.finish() == 0, child.lines[-5:]
    ((segments,),) = child.said("segments")
    assert int(segments) > 2 * SPARE > OPEN_FILES_PER_LOG_MAX, "too few segments to prove that files are closed again"
    assert len(child.said("open")) == 1
    assert child.said("refused-open") == [[str(errno.EMFILE)]]
    assert child.said("refused-read") in ([], [[str(errno.EMFILE)]])
    assert len(child.said("refused")) == 1, "the roll that needs a descriptor must say no"
    assert child.lines[-1] == "closed"
    acknowledged_end = child.acknowledged()[-1][1]
    assert verify_local_log(settings.directory).sound
    log = open_local_log(settings.directory, settings.options())
    try:
        assert log.view.end_offset >= acknowledged_end
        check_view(settings.seed, log.view)
    finally:
        log.close()
