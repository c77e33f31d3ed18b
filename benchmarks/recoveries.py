"""Opening a log whose writer was killed, beside reading its files."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import Benchmark, Result, Row, Unit, alternate, timed
from benchmarks.place import Place, child, read_plainly, segment_files
from flowmesh.assemble import open_local_log
from flowmesh.base.limits import MIB
from flowmesh.format import mark as mark_format
from flowmesh.format import names

UNCLEAN = Row("recovery of an unclean 1 GiB log (its writer killed with -9)", "reading its files plainly", 0.5)
WORST = Row("the same, all indexes and the mark removed: everything scanned", "reading its files plainly", aim=0.5)
_SHORT_BYTES = 16 * MIB


class _Crash(NamedTuple):
    """What a killed writer left, but for what recovery does not change: enough to make it so again."""

    directory: Path
    small: dict[str, bytes]
    active: Path
    durable: int
    tail: bytes

    @classmethod
    def of(cls, directory: Path) -> _Crash:
        active = segment_files(directory)[-1]
        small = {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in (".idx", ".mark")}
        mark = mark_format.decode(small[names.MARK])
        durable = mark.position if mark is not None and names.segment_name(mark.segment) == active.name else 0
        with active.open("rb") as file:
            file.seek(durable)
            return cls(directory, small, active, durable, file.read())

    def again(self, *, forgetful: bool) -> None:
        """The directory as the crash left it; `forgetful` without all that recovery could lean on."""
        for path in self.directory.iterdir():
            if path.suffix in (".idx", ".mark"):
                path.unlink()
        for name, data in ({} if forgetful else self.small).items():
            (self.directory / name).write_bytes(data)
        for path in segment_files(self.directory):
            if path.name > self.active.name:
                path.unlink()
        with self.active.open("r+b") as file:
            file.truncate(self.durable)
            file.seek(self.durable)
            file.write(self.tail)


def run(place: Place) -> list[Result]:
    with _crashed(place) as crash:
        files = segment_files(crash.directory)
        size = sum(path.stat().st_size for path in files)
        return [_recover(place, row, crash, files, size, forgetful=row is WORST) for row in (UNCLEAN, WORST)]


def _recover(place: Place, row: Row, crash: _Crash, files: list[Path], size: int, *, forgetful: bool) -> Result:
    def ours() -> float:
        crash.again(forgetful=forgetful)
        opened = []
        seconds = timed(lambda: opened.append(open_local_log(crash.directory)))
        opened[0].close()
        return seconds

    samples = alternate(place.sizes.rounds, ours, lambda: timed(lambda: read_plainly(files)))
    note = f"{len(files)} segments, {files[-1].stat().st_size / MIB:,.0f} MiB in the active one"
    return Result(row, samples, Unit.BYTES, size, note)


@contextmanager
def _crashed(place: Place) -> Iterator[_Crash]:
    """A log of nearly the full size, so that its last segment is nearly full: there recovery has most to do."""
    wanted = max(place.sizes.log_bytes - _SHORT_BYTES, MIB)
    with place.folder("crash") as folder:
        with child("write", str(folder / "log")) as writer:
            assert writer.stdout is not None
            for line in writer.stdout:
                if int(line) >= wanted:
                    break
            writer.send_signal(signal.SIGKILL)
            if writer.wait() != -signal.SIGKILL:
                raise ChildProcessError(f"the writer ended by itself with status {writer.returncode}")
        yield _Crash.of(folder / "log")


BENCHMARKS = (Benchmark("recovery", (UNCLEAN, WORST), run, lambda sizes: 2 * sizes.log_bytes),)
