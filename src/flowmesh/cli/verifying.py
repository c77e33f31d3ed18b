"""The work of `log verify`: a checkpoint read, a log verified behind a progress bar, the verdict as a dictionary."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from flowmesh.assemble import verify_local_log
from flowmesh.base.errors import CorruptData, TooLarge
from flowmesh.base.limits import KIB
from flowmesh.base.times import to_text
from flowmesh.cli import meter
from flowmesh.cli.reports import of_chain, of_damage, of_note
from flowmesh.format import checkpoint as checkpoint_format
from flowmesh.format.checkpoint import Checkpoint
from flowmesh.log.verify import VerifyReport

CHECKPOINT_BYTES_MAX = 64 * KIB


def read_checkpoint(file: Path, public_key: bytes | None) -> Checkpoint:
    with file.open("rb") as stream:
        data = stream.read(CHECKPOINT_BYTES_MAX + 1)
    if len(data) > CHECKPOINT_BYTES_MAX:
        raise TooLarge(f"{file} is no checkpoint: it has more than {CHECKPOINT_BYTES_MAX} bytes.", field="checkpoint")
    try:
        return checkpoint_format.decode(data, public_key)
    except CorruptData as error:
        raise CorruptData(f"{file}: {error.message}", field="checkpoint")


def timed_verify(directory: Path, checkpoint: Checkpoint | None) -> tuple[VerifyReport, float]:
    size = sum(path.stat().st_size for path in directory.glob("segment-*.log"))
    began = time.monotonic()
    with meter.measuring(f"verifying {directory}", size) as advance:
        report = verify_local_log(directory, checkpoint=checkpoint, progress=advance)
    return report, time.monotonic() - began


def as_dictionary(
    directory: Path, report: VerifyReport, checkpoint: Checkpoint | None, seconds: float
) -> dict[str, Any]:
    return {
        "directory": str(directory),
        "sound": report.sound,
        "chain": of_chain(report.chain),
        "start_offset": report.start_offset,
        "end_offset": report.end_offset,
        "segments": report.segments,
        "blocks": report.blocks,
        "records": report.records,
        "bytes": report.size_bytes,
        "unverified_bytes": report.unverified_bytes,
        "seconds": round(seconds, 3),
        "damage": [of_damage(damage) for damage in report.damage],
        "notes": [of_note(note) for note in report.notes],
        "checkpoint": None if checkpoint is None else _of_checkpoint(checkpoint, report.checkpoint_fault),
    }


def _of_checkpoint(checkpoint: Checkpoint, fault: str | None) -> dict[str, Any]:
    return {
        "holds": fault is None,
        "fault": fault,
        "end_offset": checkpoint.end_offset,
        "time": to_text(checkpoint.time_ns),
        "public_key": checkpoint.public_key,
    }
