"""Appends beside the two system calls that they cannot do without: one write, one `fdatasync`."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness import Benchmark, Result, Row, Unit, alternate, median_of, timed
from benchmarks.place import Place, Sizes
from flowmesh.assemble import open_local_log, start_writer
from flowmesh.base.errors import FlowMeshError
from flowmesh.base.limits import KIB, MIB
from flowmesh.format import columns
from flowmesh.format.batch import HEADER_SIZE, Batch
from flowmesh.format.block import CRC, OVERHEAD, PREFIX_SIZE
from flowmesh.log.commit import Result as Answer

_BATCHES = 64
_IN_FLIGHT = 2
"""One is written and synced while the next one waits, so that each commit still has its own sync, as beside it."""

BLOCKS = Row("append 1 MiB blocks, fsynced", "the same bytes, `writev` + `fdatasync`", 0.7)
COMMITS = Row("append 64 batches of 100 records × 100 B per commit, fsynced", "the same bytes, likewise", 0.5)
ALONE = Row("writer thread, one append of 100 B in flight, p50", "one `pwrite` + `fdatasync`, p50", aim=0.5)


def run_blocks(place: Place) -> list[Result]:
    batch = columns.encode([os.urandom(MIB)])
    return [_side_by_side(place, BLOCKS, [batch], place.sizes.blocks)]


def run_commits(place: Place) -> list[Result]:
    group = [columns.encode([os.urandom(100) for _ in range(100)]) for _ in range(_BATCHES)]
    return [_side_by_side(place, COMMITS, group, place.sizes.commits)]


def _side_by_side(place: Place, row: Row, group: list[Batch], commits: int) -> Result:
    size = sum(batch.size + OVERHEAD for batch in group)
    with place.folder("appends") as folder, _plain_file(folder) as plainly:
        log, writer = open_local_log(folder / "log", create="benchmark"), start_writer()
        buffers = [piece for batch in group for piece in _pieces(batch)]

        def ours() -> None:
            under_way = deque[Future[Sequence[Answer]]]()
            for _ in range(commits):
                if len(under_way) == _IN_FLIGHT:
                    _require_appended(under_way.popleft())
                under_way.append(writer.append(log, group))
            for future in under_way:
                _require_appended(future)

        def theirs() -> None:
            for _ in range(commits):
                plainly(buffers)

        try:
            samples = alternate(place.sizes.rounds, lambda: timed(ours), lambda: timed(theirs))
        finally:
            writer.close()
            log.close()
    return Result(row, samples, Unit.BYTES, commits * size)


def _require_appended(future: Future[Sequence[Answer]]) -> None:
    for result in future.result():
        if isinstance(result, FlowMeshError):
            raise result


def run_alone(place: Place) -> list[Result]:
    batch = columns.encode([os.urandom(100)])
    with place.folder("alone") as folder, _plain_file(folder) as plainly:
        log, writer = open_local_log(folder / "log", create="benchmark"), start_writer()
        buffers = [b"".join(_pieces(batch))]

        def ours() -> None:
            writer.append(log, [batch]).result()

        try:
            appends = place.sizes.appends
            samples = alternate(
                place.sizes.rounds,
                lambda: median_of(appends, ours),
                lambda: median_of(appends, lambda: plainly(buffers)),
            )
        finally:
            writer.close()
            log.close()
    return [Result(ALONE, samples, Unit.OPERATIONS)]


def _pieces(batch: Batch) -> tuple[bytes, bytes, bytes]:
    """As many bytes as the entry of this batch has, in the pieces that a `writev` would get."""
    return bytes(PREFIX_SIZE + HEADER_SIZE), bytes(batch.body), bytes(CRC.size)


@contextmanager
def _plain_file(folder: Path) -> Iterator[Callable[[list[bytes]], None]]:
    descriptor = os.open(folder / "plain", os.O_RDWR | os.O_CREAT, 0o600)
    position = 0

    def write(buffers: list[bytes]) -> None:
        nonlocal position
        position += os.pwritev(descriptor, buffers, position)
        os.fdatasync(descriptor)

    try:
        yield write
    finally:
        os.close(descriptor)


def _disk_bytes(one_round: Callable[[Sizes], int]) -> Callable[[Sizes], int]:
    return lambda sizes: 2 * (sizes.rounds + 1) * one_round(sizes)


BENCHMARKS = (
    Benchmark("append-blocks", (BLOCKS,), run_blocks, _disk_bytes(lambda sizes: sizes.blocks * MIB)),
    Benchmark("append-commits", (COMMITS,), run_commits, _disk_bytes(lambda sizes: sizes.commits * MIB)),
    Benchmark("append-alone", (ALONE,), run_alone, _disk_bytes(lambda sizes: sizes.appends * KIB)),
)
