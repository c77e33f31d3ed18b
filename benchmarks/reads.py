"""Reading blocks back: in sequence from the files, and the newest ones from memory."""

from __future__ import annotations

from benchmarks.harness import Benchmark, Result, Row, Unit, alternate, timed
from benchmarks.place import BLOCK_BYTES, Place, append, random_batch, read_plainly, segment_files
from flowmesh.assemble import open_local_log, read_local_log
from flowmesh.base.limits import MIB, TAIL_CACHE_BYTES_DEFAULT
from flowmesh.format import columns
from flowmesh.log.view import LogView

SMALL = Row("sequential read, 1 MiB at a time, blocks of 100 kB", "plain `pread`, 1 MiB at a time", 0.6)
LARGE = Row("sequential read, 1 MiB at a time, blocks of 1 MiB", "plain `pread`, 1 MiB at a time", 0.6)
TAIL = Row("tail reads from memory, decoded to records", "decoding the same batches alone")


def run_sequential(place: Place) -> list[Result]:
    return [_sequential(place, SMALL, BLOCK_BYTES), _sequential(place, LARGE, MIB)]


def _sequential(place: Place, row: Row, block_bytes: int) -> Result:
    directory = place.sound_log(block_bytes)
    files = segment_files(directory)

    def ours() -> float:
        view = read_local_log(directory)
        return timed(lambda: _read_all(view))

    samples = alternate(place.sizes.rounds, ours, lambda: timed(lambda: read_plainly(files)))
    return Result(row, samples, Unit.BYTES, sum(path.stat().st_size for path in files))


def _read_all(view: LogView) -> None:
    offset, cursor = view.start_offset, None
    while offset < view.end_offset:
        chunk = view.read(offset, MIB, cursor)
        offset, cursor = chunk.next_offset, chunk.cursor


def run_tail(place: Place) -> list[Result]:
    batch = random_batch(BLOCK_BYTES)
    with place.folder("tail") as folder:
        log = open_local_log(folder / "log", create="benchmark")
        append(log, [batch] * (TAIL_CACHE_BYTES_DEFAULT // 2 // batch.size))
        view = log.view
        batches = [block.batch for block in view.blocks()]

        def ours() -> None:
            offset = view.start_offset
            while offset < view.end_offset:
                chunk = view.read_tail(offset, MIB)
                assert chunk is not None
                for block in chunk.blocks:
                    columns.decode(block.batch).records()
                offset = chunk.next_offset

        def theirs() -> None:
            for item in batches:
                columns.decode(item).records()

        samples = alternate(place.sizes.rounds, lambda: timed(ours), lambda: timed(theirs))
        log.close()
    return [Result(TAIL, samples, Unit.RECORDS, view.end_offset)]


BENCHMARKS = (
    Benchmark("sequential", (SMALL, LARGE), run_sequential, lambda sizes: 2 * sizes.log_bytes),
    Benchmark("tail", (TAIL,), run_tail, lambda _sizes: TAIL_CACHE_BYTES_DEFAULT),
)
