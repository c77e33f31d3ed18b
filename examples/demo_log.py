"""What the log promises, shown: a writer is killed, a byte is flipped, a history is forged, and none of it goes unseen.

Run it with `make demo-log`, or with --records, and --keep to look at what it leaves. It ends with 1 if anything
misbehaves.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from flowmesh import assemble
from flowmesh.base.errors import CorruptData
from flowmesh.base.limits import MIB
from flowmesh.format import checkpoint as checkpoint_format
from flowmesh.format import columns, names
from flowmesh.format.checkpoint import Checkpoint
from flowmesh.log.appender import Appender
from flowmesh.log.options import LogOptions
from flowmesh.log.verify import VerifyReport

OPTIONS = LogOptions(segment_bytes=16 * MIB)
BATCH_RECORDS = 1_000
IN_FLIGHT_MAX = 4
KILL_AFTER_S = 0.003
"""After an acknowledgement was seen: long enough for the next write to have begun."""
PADDING = b"." * 60


class Misbehaved(Exception):
    """A step did not end as it must."""


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Misbehaved(otherwise)


def say(text: str) -> None:
    print(f"   {text}", flush=True)


def value(number: int) -> bytes:
    """The record at an offset is known beforehand, so that what is read back can be compared."""
    return b'{"order":%09d,"amount":%d,"note":"%s"}' % (number, number * 7919 % 100_000, PADDING)


def values(start: int, end: int) -> list[bytes]:
    return list(map(value, range(start, end)))


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar in a terminal, a line or two elsewhere. What it yields is told how far things are."""
    if sys.stdout.isatty():
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        with Progress(TextColumn("   {task.description}"), BarColumn(), TaskProgressColumn(), transient=True) as bar:
            task = bar.add_task(label, total=total)
            yield lambda done: bar.update(task, completed=done)
        return
    half = 0

    def tell(done: int) -> None:
        nonlocal half
        if total and done * 2 // total > half:
            half = done * 2 // total
            say(f"{label}: {done * 100 // total} %")

    yield tell


# --- writing ------------------------------------------------------------------------------------------------------


def write(log: Appender, start: int, end: int, acknowledged: Callable[[int], None]) -> None:
    """Appends records with a few batches under way at once; each acknowledgement follows the fsync that covers it."""
    writer = assemble.start_writer()
    under_way: list[Future[Sequence[object]]] = []
    try:
        for first in range(start, end, BATCH_RECORDS):
            numbers = values(first, min(first + BATCH_RECORDS, end))
            under_way.append(writer.append(log, [columns.encode(numbers)]))
            while len(under_way) > IN_FLIGHT_MAX:
                acknowledged(_end_of(under_way.pop(0)))
        for future in under_way:
            acknowledged(_end_of(future))
    finally:
        writer.close()


def _end_of(future: Future[Sequence[object]]) -> int:
    (result,) = future.result()
    if isinstance(result, Exception):
        raise result
    end_offset = getattr(result, "end_offset", None)
    assert isinstance(end_offset, int)
    return end_offset


def be_the_child(directory: Path, records: int) -> None:
    """What the killed process runs: it writes, and tells its parent of each acknowledgement."""
    write(
        assemble.open_local_log(directory, OPTIONS, create="orders"),
        0,
        records * 4 // 5,
        lambda end: print(end, flush=True),
    )
    sys.stdin.read()  # on a machine that is too busy to kill it in time it waits here, as long as its parent lives


def write_and_kill(directory: Path, records: int) -> int:
    """How much the child had acknowledged when it was killed, counted on this side of the pipe."""
    command = [sys.executable, __file__, "--child", str(directory), "--records", str(records)]
    acknowledged = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        with progress("written and acknowledged", records) as told:
            for line in child.stdout:
                acknowledged = int(line)
                told(acknowledged)
                if acknowledged * 5 >= records * 3:
                    time.sleep(KILL_AFTER_S)
                    child.send_signal(signal.SIGKILL)
                    break
            # What was said before it died counts too; the last line may be cut short.
            acknowledged = max([acknowledged, *(int(line) for line in child.stdout if line.endswith("\n"))])
        status = child.wait()
    expect(status == -signal.SIGKILL, f"the child ended with {status}, and not by SIGKILL")
    return acknowledged


def recover_and_finish(directory: Path, records: int, acknowledged: int) -> None:
    began = time.monotonic()
    log = assemble.open_local_log(directory, OPTIONS)
    found = log.view.end_offset
    say(f"opened again in {(time.monotonic() - began) * 1000:.0f} ms; recovery found:")
    for note in log.notes:
        say(f"  {note.where.value}: {note.finding.value} ({note.detail}) -> {note.action.value}")
    if not any(note.action.value == "cut" for note in log.notes):
        say("  no torn write at the end, so nothing was cut")
    say(f"acknowledged before the kill: {acknowledged:,}; found after it: {found:,}")
    expect(found >= acknowledged, f"{acknowledged - found} acknowledged records are lost")
    say(f"no acknowledged record was lost; {found - acknowledged:,} more were on their way and were kept whole")
    with progress("written and acknowledged", records) as told:
        write(log, found, records, told)
    log.close()


# --- checking -----------------------------------------------------------------------------------------------------


def compare(directory: Path, records: int) -> None:
    view = assemble.read_local_log(directory)
    expect(view.end_offset == records, f"the log ends at {view.end_offset}, not at {records}")
    with progress("compared", records) as told:
        for block in view.blocks():
            read = columns.decode(block.batch).values.items()
            expect(read == values(block.base_offset, block.end_offset), f"block {block.id} is not what was written")
            told(block.end_offset)
    say(f"all {records:,} records are what was written, in order")


def verify(directory: Path, checkpoint: Checkpoint | None = None) -> VerifyReport:
    total, done, began = sum(path.stat().st_size for path in directory.glob("segment-*.log")), 0, time.monotonic()
    with progress("verified", total) as told:

        def advance(size: int) -> None:
            nonlocal done
            done += size
            told(done)

        report = assemble.verify_local_log(directory, checkpoint=checkpoint, progress=advance)
    seconds = max(time.monotonic() - began, 1e-6)
    say(
        f"{report.blocks:,} blocks in {report.segments} segment(s) hashed in {seconds:.2f} s:"
        f" {report.blocks / seconds:,.0f} blocks/s, {report.size_bytes / seconds / 1e6:,.0f} MB/s"
    )
    return report


def flip_a_bit(path: Path) -> None:
    """One bit of one value, as a failing disk would; done twice it is as it was."""
    place = path.stat().st_size // 2
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))
    say(f"flipped one bit in byte {place:,} of {path.name}")


def see_the_damage(directory: Path) -> None:
    report = verify(directory)
    expect(len(report.damage) == 1, f"one damaged range was made, {len(report.damage)} were found")
    damage = report.damage[0]
    say(f"verify: {damage.describe()}")
    expect(
        damage.position <= (directory / names.segment_name(1)).stat().st_size // 2 < damage.end_position, "elsewhere"
    )
    view = assemble.read_local_log(directory)
    try:
        view.read(damage.first_offset)
    except CorruptData:
        before, after = view.read(damage.first_offset - 1), view.read(damage.end_offset)
        expect(before.next_offset == damage.first_offset and bool(after.blocks), "what is around it cannot be read")
        say("reading there is refused; what is before and after it can still be read")
    else:
        raise Misbehaved("damaged records were served")


def forge(real: Path, forged: Path, records: int) -> None:
    """Another history under the same identity: one value changed, every hash computed anew. Nothing in it is broken."""
    forged.mkdir()
    shutil.copy(real / names.CHAIN, forged / names.CHAIN)
    victim = records // 3
    log, writer = assemble.open_local_log(forged, OPTIONS), assemble.start_writer()
    try:
        for block in assemble.read_local_log(real).blocks():
            batch = block.batch
            if block.base_offset <= victim < block.end_offset:
                changed = columns.decode(batch).values.items()
                changed[victim - block.base_offset] = value(victim).replace(b'"amount":', b'"amount":9')
                batch = columns.encode(changed, times_ns=columns.decode(batch).times())
            _end_of(writer.append(log, [batch]))
    finally:
        writer.close()
        log.close()
    say(f"rewrote all {records:,} records with one amount changed, at offset {victim:,}")


# --- the story ----------------------------------------------------------------------------------------------------


def run(place: Path, records: int) -> None:
    real, forged, saved = place / "orders", place / "forged", place / "checkpoint.json"
    print(f"1. A process writes {records:,} records, and is killed with SIGKILL in the middle")
    acknowledged = write_and_kill(real, records)
    say(f"killed; {acknowledged:,} records had been acknowledged until then")
    print("2. The log recovers, and another process finishes the work")
    recover_and_finish(real, records, acknowledged)
    compare(real, records)
    print("3. Every hash is computed anew, and the end of the chain is signed")
    expect(verify(real).sound, "the log is not sound")
    key, _ = assemble.load_or_create_key(place / "key.pem")
    saved.write_bytes(checkpoint_format.encode(assemble.sign_checkpoint(assemble.read_local_log(real), key)))
    say("sound; checkpoint signed, to be kept where who writes the log cannot reach it")
    print("4. A disk flips a single bit")
    flip_a_bit(real / names.segment_name(1))
    see_the_damage(real)
    flip_a_bit(real / names.segment_name(1))
    print("5. Somebody rewrites the history, and recomputes every hash")
    forge(real, forged, records)
    expect(verify(forged).sound, "the forged chain should look sound by itself")
    say("the chain alone says: sound")
    checkpoint = checkpoint_format.decode(saved.read_bytes(), key.public_key().public_bytes_raw())
    fault = verify(forged, checkpoint).checkpoint_fault
    expect(fault is not None, "the checkpoint did not tell the forged log from the real one")
    say(f"the checkpoint says: {fault}")
    expect(verify(real, checkpoint).sound, "the checkpoint does not hold for the log that it was taken of")
    say("for the real log, its bit put right again, it still holds")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, metavar="N", help="how many (default: a million)")
    parser.add_argument("--keep", action="store_true", help="leave the files, and say where they are")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child is not None:
        be_the_child(chosen.child, chosen.records)
        return 0
    if chosen.records < 20 * BATCH_RECORDS:
        parser.error(f"with fewer than {20 * BATCH_RECORDS} records there is no middle to kill the writer in")
    place, began = Path(tempfile.mkdtemp(prefix="flowmesh-demo-")), time.monotonic()
    try:
        run(place, chosen.records)
    except Misbehaved as error:
        print(f"FAILED: {error}")
        return 1
    finally:
        if chosen.keep:
            print(f"The files are in {place}: try `flowmesh log inspect {place / 'orders'}`.")
        else:
            shutil.rmtree(place, ignore_errors=True)
    print(f"All of it behaved, in {time.monotonic() - began:.1f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
