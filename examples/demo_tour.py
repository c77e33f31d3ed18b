"""The whole tour: a node, orders, a pipeline, a kill, an archive, a look into the past, and a tamperer who is caught.

Run it with `make demo`. Everything is checked against what the orders are known to be; it ends with 1 if anything is
not as it must be, and leaves nothing behind. `--keep` leaves the files, `--orders` says how many orders there are.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import click

from examples.orders import generator
from flowmesh.base.errors import FlowMeshError
from flowmesh.base.limits import KIB
from flowmesh.cli.main import flowmesh
from flowmesh.client.blocking import BlockingClient, connect_blocking
from flowmesh.spark.file_stream import partition_directory
from flowmesh.spark.options import StreamName
from flowmesh.testing import NodeProcess

PIPELINE = Path(__file__).parent / "orders" / "pipeline.yaml"
PATIENCE_S = 240.0
"""How long any single thing is waited for."""
TOO_LATE = 200
PARTITIONS = 2
RETENTION_INTERVAL_S = 1
SEGMENTS = 6
_ORDER_BYTES = 90
_DROPPED = {"FLOWMESH_TOKEN", "FLOWMESH_CONTEXT", "FLOWMESH_CA_FILE"}


class Misbehaved(Exception):
    """A step did not end as it must."""


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Misbehaved(otherwise)


def say(text: str) -> None:
    for line in text.splitlines():
        print(f"   {line}", flush=True)


def run_command(*arguments: object) -> tuple[int, str]:
    """A command as one would type it, without a new process for each."""
    texts = [str(argument) for argument in arguments]
    say(f"$ flowmesh {' '.join(texts)}")
    out = StringIO()
    with redirect_stdout(out):
        code = flowmesh.main(texts, prog_name="flowmesh", standalone_mode=False)
    return int(code or 0), out.getvalue()


def told(*arguments: object) -> str:
    """The same, its answer shown; it has to succeed."""
    code, text = run_command(*arguments)
    say(text)
    expect(code == 0, f"it ended with {code}")
    return text


class Tour:
    def __init__(self, place: Path, orders: int) -> None:
        self.place = place
        self.orders = orders
        self.half = orders // 2
        self.node = NodeProcess(
            place / "data", retention_interval_s=RETENTION_INTERVAL_S, disk_reserve_bytes=0, log_level="error"
        )
        self.archive = place / "archive"
        self.began = time.monotonic()
        self.middle = ""
        self.summary: list[tuple[str, str]] = []
        self._steps = 0

    def step(self, title: str) -> None:
        self._steps += 1
        print(f"{self._steps}. {title}  [{time.monotonic() - self.began:.0f} s]", flush=True)

    def found(self, what: str, how_much: str) -> None:
        self.summary.append((what, how_much))

    def end(self) -> None:
        if self.node.running:
            self.node.kill()

    # --- orders and the pipeline --------------------------------------------------------------------------------

    def run(self) -> None:
        self.step("A node, with a stream whose segments are small enough to close during a demo")
        segment = max(self.orders * _ORDER_BYTES // PARTITIONS // SEGMENTS, 64 * KIB)
        self.node.start()
        self._name_everything()
        told("stream", "create", "orders", "--partitions", PARTITIONS, "--segment-bytes", segment)
        with connect_blocking(self.node.url, token=self.node.token) as client:
            self.step("A pipeline that goes on while orders come: revenue per minute and category")
            self._pipeline(client)
            self.step("What it wrote, against what the orders are known to be")
            self._compare(client)
            self.step("Closed segments go into the archive as Parquet, and the log forgets them")
            self._archive(client)
        self.step("The past, asked over both tiers at once")
        self._look_back()
        self.step("Every hash computed anew, log and archive")
        self._verify("sound")
        self.step("Somebody changes one bit of the archive, and then one of the log")
        self._tamper()

    def _name_everything(self) -> None:
        """For the commands, as a shell would export it."""
        for name in _DROPPED:
            os.environ.pop(name, None)
        os.environ |= {
            "FLOWMESH_URL": self.node.url,
            "FLOWMESH_TOKEN_FILE": str(self.place / "data" / "admin.token"),
            "FLOWMESH_DATA_DIR": str(self.place / "data"),
            "FLOWMESH_CONTEXTS": str(self.place / "contexts.yaml"),
            "FLOWMESH_STATE": str(self.place / "state"),
        }

    def _pipeline(self, client: BlockingClient) -> None:
        stream, last = client.stream("orders"), self.orders - 1
        windows = len(generator.revenue(generator.good(0, self.orders, self.orders)))
        say(f"$ flowmesh pipeline run {PIPELINE.relative_to(PIPELINE.parents[2])}")
        with following(self.place) as lines:
            first = [generator.value(number, self.orders) for number in range(self.half)]
            sent = generator.send(stream, first)
            say(f"sent {sent:,} orders while the pipeline starts")
            lines.until(lambda seen: seen.rows_in >= sent and seen.rows_out > 0, "the first half is not summed up")
            time.sleep(1)
            self.middle = datetime.now(UTC).isoformat()
            time.sleep(1)
            late = [generator.too_late(number).as_json() for number in range(TOO_LATE)]
            rest = [generator.value(number, self.orders) for number in range(self.half, self.orders)]
            sent += generator.send(stream, rest[: len(rest) // 2])
            self.node.kill()
            say("kill -9 of the node, while the pipeline reads from it and writes to it; and a new start")
            self.node.start()
            sent += generator.send(stream, [*late, *rest[len(rest) // 2 :], generator.closing(last + 1).as_json()])
            say(f"sent the other half, and {TOO_LATE} orders for windows that are closed")
            seen = lines.until(lambda seen: seen.rows_out >= windows, f"there are not {windows} windows")
            lines.until(lambda seen: seen.dead_letters >= self.broken, "broken orders are missing")
        expect(seen.rows_out == windows, f"{seen.rows_out} windows were written, and not {windows}")
        say("ended in order by SIGTERM")
        told("pipeline", "list")
        told("group", "list", "orders")
        self.found("orders", f"{sent:,} through the pipeline, some late, and the node killed under it")
        self.found("windows", f"{windows} of a minute and a category, each written exactly once")

    @property
    def broken(self) -> int:
        return sum(map(generator.is_broken, range(self.orders)))

    def _compare(self, client: BlockingClient) -> None:
        expected = generator.revenue(generator.good(0, self.orders, self.orders))
        computed = {}
        with client.stream("revenue").consumer("earliest", until_end=True) as consumer:
            for record in consumer:
                window = json.loads(record.value or b"")
                computed[window["window_start"], window["category"]] = (
                    round(window["revenue"] * 100),
                    window["orders"],
                )
        expect(computed == expected, f"{sum(computed.get(key) != found for key, found in expected.items())} are wrong")
        say(f"all {len(expected)} windows of the stream 'revenue' are right, to the cent")
        say(f"orders that came after their window was closed: {TOO_LATE}, left out as they should be")
        with client.stream("orders-dead-letters").consumer("earliest", until_end=True) as consumer:
            letters = list(consumer)
        expect(len(letters) == self.broken, f"{len(letters)} dead letters, and not {self.broken}")
        why = dict(letters[0].headers)
        say(f"dead letters: {len(letters)}, each with its reason, such as: {why[b'x-flowmesh-error'].decode()}")
        self.found("dead letters", f"{len(letters)}, with the reason and the offset")

    # --- the archive --------------------------------------------------------------------------------------------

    def _archive(self, client: BlockingClient) -> None:
        told("archive", "run", "orders", "--to", self.archive)
        told("stream", "alter", "orders", "--retention-bytes", 64 * KIB)
        stream = client.stream("orders")
        deadline, starts, before = time.monotonic() + PATIENCE_S, [0], [0]
        while not any(starts) or starts != before:
            expect(time.monotonic() < deadline, "retention drops nothing")
            time.sleep(2 * RETENTION_INTERVAL_S)
            before, starts = starts, [each.start_offset for each in stream.describe().partitions]
        described = stream.describe().partitions
        gone = sum(each.start_offset for each in described)
        held = sum(each.end_offset - each.start_offset for each in described)
        say(f"the log has dropped {gone:,} records, all of them archived, and holds {held:,}")
        self.found("tiers", f"{gone:,} records in the archive alone, {held:,} in the log")

    def _look_back(self) -> None:
        import flowmesh.spark

        spark = flowmesh.spark.session(conf={"spark.log.level": "OFF"})
        try:
            access = {"url": self.node.url, "token": self.node.token, "valueSchema": "cents BIGINT"}
            for title, end, until in (("as of the middle", self.half, self.middle), ("now", self.orders, None)):
                options = access if until is None else {**access, "endingTimestamp": until}
                rows = spark.read.format("flowmesh").options(**options).load("orders").where("_error IS NULL")
                ((count, cents),) = rows.selectExpr("count(*)", "sum(cents)").collect()
                good = list(generator.good(0, end, self.orders))
                # The late ones and the one that closes the windows are one cent each.
                extra = TOO_LATE + 1 if until is None else 0
                say(f"{title}: {count:,} orders, {cents / 100:,.2f} in all")
                expect(count == len(good) + extra, f"there should be {len(good) + extra:,} orders")
                expect(cents == sum(each.cents for each in good) + extra, "the sum is wrong")
        finally:
            spark.stop()
        self.found("time travel", "sums as of the middle and as of now are right, over both tiers")

    # --- tampering ----------------------------------------------------------------------------------------------

    def _verify(self, verdict: str) -> str:
        code, text = run_command("verify", "--spark", "orders", "--archive", self.archive)
        say(text)
        expect((code == 0) == (verdict == "sound"), f"it ended with {code}")
        return text

    def _tamper(self) -> None:
        cold = min(self.archive.rglob("*.parquet"))
        with flipped(cold):
            text = self._verify("NOT SOUND")
        expect(cold.name in text, "the damaged file is not named")
        orders = StreamName("default", "default", "orders")
        hot = min(partition_directory(str(self.place / "data"), orders, 0).glob("segment-*.log"))
        with flipped(hot):
            text = self._verify("NOT SOUND")
        expect("cannot be served" in text, "the lost offsets are not named")
        self._verify("sound")
        self.found("tampering", "one bit in the archive and one in the log: both found, and named")


# --- the pipeline, looked at from outside -------------------------------------------------------------------------


class Seen:
    rows_in = rows_out = dead_letters = 0


class Lines:
    """What `pipeline run --json` says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._seen = Seen()

    def until(self, enough: Callable[[Seen], bool], otherwise: str) -> Seen:
        assert self._process.stdout is not None
        seen = self._seen
        while not enough(seen):
            line = self._process.stdout.readline()
            if not line:
                raise Misbehaved(f"{otherwise}, and the pipeline has ended")
            self._take(json.loads(line))
        return seen

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "ended" and event["error"]:
            raise Misbehaved(event["error"])
        if event["event"] != "progress":
            return
        if event["query"] == "orders-dead-letter":
            self._seen.dead_letters = event["rows_out"]
            return
        self._seen.rows_in, self._seen.rows_out = event["rows_in"], event["rows_out"]
        say(
            f"batch {event['batch']}: {event['rows_in']:,} orders in, {event['rows_out']} windows out,"
            f" {event['rows_per_second']:,.0f} orders/s, {event['lag'] or 0:,} behind"
        )


@contextmanager
def following(place: Path) -> Iterator[Lines]:
    """The pipeline as a process, ended by SIGTERM. `place` takes what it complains of."""
    command = [sys.executable, "-m", "flowmesh", "pipeline", "run", str(PIPELINE), "--json"]
    alarm = signal.signal(signal.SIGALRM, _too_long)
    with (
        (place / "pipeline.log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            signal.alarm(int(PATIENCE_S))
            yield Lines(process)
            process.terminate()
            process.communicate()
            expect(process.returncode == 0, f"the pipeline ended with {process.returncode}")
        except Misbehaved:
            say((place / "pipeline.log").read_text(errors="replace")[-2_000:])
            raise
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, alarm)
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()


def _too_long(_number: int, _frame: object) -> None:
    raise Misbehaved(f"the pipeline was not done after {PATIENCE_S:g} s")


@contextmanager
def flipped(path: Path) -> Iterator[None]:
    """One bit of one byte, as a failing disk would; put right again afterwards."""
    position = path.stat().st_size // 2
    say(f"flipped one bit in byte {position:,} of {path.name}")
    _flip(path, position)
    try:
        yield
    finally:
        _flip(path, position)


def _flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def require_java() -> None:
    """Before anything is started: without it most of this cannot be."""
    from flowmesh.spark.java import java_home

    java_home(os.environ)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=200_000, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the files, and say where they are")
    chosen = parser.parse_args()
    if chosen.orders < 10_000:
        parser.error("with fewer than 10,000 orders no segment closes")
    place = Path(tempfile.mkdtemp(prefix="flowmesh-demo-"))
    tour = Tour(place, chosen.orders)
    with ExitStack() as stack:
        stack.callback(leave, place, keep=chosen.keep)
        stack.callback(tour.end)
        try:
            require_java()
            tour.run()
        except (Misbehaved, FlowMeshError, click.ClickException) as error:
            print(f"FAILED: {error.message if isinstance(error, click.ClickException) else error}")
            return 1
        except KeyboardInterrupt:
            print("stopped")
            return 130
        print("\nAll of it behaved:")
        for what, how_much in tour.summary:
            say(f"{what:13} {how_much}")
        print(f"in {time.monotonic() - tour.began:.0f} s.")
    return 0


def leave(place: Path, *, keep: bool) -> None:
    if keep:
        print(f"The files are in {place}; 'flowmesh serve --data-dir {place / 'data'}' runs the node again.")
    else:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
