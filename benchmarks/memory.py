"""Whether memory stays flat while gigabytes go through, in a process that does nothing else."""

from __future__ import annotations

import json

from benchmarks.harness import Benchmark, Result, Row, Samples, Unit
from benchmarks.place import Place, child
from flowmesh.base.limits import MIB

WRITING = Row("memory while writing 5 GiB, at the end", "after the first tenth")
READING = Row("memory while reading 5 GiB, at the end", "after the first tenth")
_SHARE = 10


def run(place: Place) -> list[Result]:
    with (
        place.folder("memory") as folder,
        child("memory", str(folder / "log"), str(place.sizes.memory_bytes)) as watched,
    ):
        assert watched.stdout is not None
        told = watched.stdout.read()
        if watched.wait():
            raise ChildProcessError(f"the process whose memory is watched ended with status {watched.returncode}")
    samples = json.loads(told)
    return [_growth(WRITING, samples["writing"]), _growth(READING, samples["reading"])]


def _growth(row: Row, samples: list[int]) -> Result:
    """The caches fill in the first tenth; what is more at the end would be more again after the next gigabytes."""
    early, late, most = samples[len(samples) // _SHARE], samples[-1], max(samples)
    note = f"{(late - early) / MIB:+.1f} MiB from first tenth to end, {most / MIB:.1f} at most, {len(samples)} samples"
    return Result(row, Samples([float(late)], [float(early)]), Unit.MEMORY, note=note)


BENCHMARKS = (Benchmark("memory", (WRITING, READING), run, lambda sizes: sizes.memory_bytes * 11 // 10),)
