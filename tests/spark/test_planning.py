"""Plans without a cluster: what is read for a range, a filter or a limit, counted in pieces and bytes of a real log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pytest
from pyspark.sql import datasource as ds
from pyspark.sql.types import StructType

from flowmesh.assemble import open_local_log
from flowmesh.format import columns
from flowmesh.format.batch import BatchKind
from flowmesh.spark.admission import within_bytes, within_rows
from flowmesh.spark.batch_source import BatchReader, FilteringReader
from flowmesh.spark.bounds import Narrowing
from flowmesh.spark.errors import Condition, FlowMeshSparkError
from flowmesh.spark.file_stream import FileStream
from flowmesh.spark.filters import pushed
from flowmesh.spark.location import Location, PartitionFacts, Range, StreamFacts
from flowmesh.spark.options import StreamName
from flowmesh.spark.planning import HotPiece, ReadPlan, ReadSettings, plan

BLOCKS, ROWS, WIDTH = 60, 100, 200
SECOND_NS = 1_000_000_000
T0_NS = 1_700_000_000 * SECOND_NS
NAME = StreamName("default", "default", "log")
SCHEMA = StructType().add("offset", "long").add("value", "binary")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6,000 records of 200 bytes, a second apart."""
    return written(tmp_path_factory.mktemp("plans") / "log", range(BLOCKS * ROWS))


def written(place: Path, seconds: Sequence[int]) -> Path:
    with closing(open_local_log(place, create="plans")) as log:
        for first in range(0, len(seconds), ROWS):
            times = [T0_NS + second * SECOND_NS for second in seconds[first : first + ROWS]]
            log.write([columns.encode([b"%0*d" % (WIDTH, first + row) for row in range(len(times))], times_ns=times)])
        log.sync()
    return place


def at(second: int) -> datetime:
    return datetime.fromtimestamp(T0_NS // SECOND_NS + second, UTC)


def planned(log: Path, filters: Sequence[ds.Filter] = (), **options: str) -> ReadPlan:
    reader = FilteringReader({"dataDir": str(log)} | options, SCHEMA)
    reader.pushFilters(list(filters))
    return reader.plan()


def offsets(found: ReadPlan) -> tuple[int, int]:
    return found.pieces[0].start, found.pieces[-1].end


def test_a_read_is_cut_by_bytes_and_covers_everything(log: Path) -> None:
    whole = planned(log, splitBytes="200KiB")
    assert len(whole.pieces) > 4
    assert offsets(whole) == (0, BLOCKS * ROWS)
    assert all(piece.end == after.start for piece, after in zip(whole.pieces, whole.pieces[1:], strict=False))
    assert max(piece.size_bytes for piece in whole.pieces) < 300 * 1024
    assert [piece for task in whole.tasks() for piece in task.pieces] == list(whole.pieces)


def test_filters_narrow_what_is_read(log: Path) -> None:
    whole = planned(log)
    offset, partition, timestamp = ("offset",), ("partition",), ("timestamp",)
    few = planned(log, [ds.GreaterThanOrEqual(offset, 1000), ds.LessThan(offset, 1060)])
    assert offsets(few) == (1000, 1060)
    assert few.size_bytes < 0.1 * whole.size_bytes
    assert planned(log, [ds.EqualTo(partition, 1)]).pieces == ()
    assert planned(log, [ds.In(partition, (0, 4)), ds.EqualTo(offset, 7)]).records == 1
    range_ = [ds.GreaterThanOrEqual(timestamp, at(3000)), ds.LessThan(timestamp, at(3060))]
    hundredth = planned(log, range_, lateness="0s")
    assert offsets(hundredth) == (3000, 3060)
    measured = planned(log, range_)
    assert offsets(measured)[0] == 3000
    assert measured.records <= 200  # a minute more, in case that producers' clocks differ
    assert measured.size_bytes <= 0.15 * whole.size_bytes


def test_times_are_left_for_spark_to_check_and_offsets_are_not(log: Path) -> None:
    filters: list[ds.Filter] = [
        ds.GreaterThan(("offset",), 5),
        ds.LessThan(("timestamp",), at(9)),
        ds.EqualTo(("key",), b"k"),
        ds.Not(ds.EqualTo(("partition",), 0)),
        ds.EqualTo(("in", "offset"), 3),
        ds.IsNotNull(("offset",)),
    ]
    found = pushed(filters)
    assert found.left == filters[1:5]
    assert found.narrowing == Narrowing(None, 6, None, None, T0_NS + 9 * SECOND_NS)


def test_late_records_are_found_though_the_index_does_not_know_them(tmp_path: Path) -> None:
    """A hundred records of the first seconds come again at the end."""
    log = written(tmp_path / "late", [*range(BLOCKS * ROWS), *range(100)])
    early = [ds.LessThan(("timestamp",), at(50))]
    assert offsets(planned(log, early)) == (0, BLOCKS * ROWS + 100)
    assert offsets(planned(log, early, lateness="10s"))[1] == 60


def test_the_bounds_of_options_are_exact(log: Path) -> None:
    found = planned(log, startingTimestamp=str(T0_NS + 100 * SECOND_NS), endingTimestamp=str(T0_NS + 160 * SECOND_NS))
    assert offsets(found) == (100, 160)
    assert offsets(planned(log, startingOffsets='{"0": 5990}')) == (5990, 6000)
    with pytest.raises(FlowMeshSparkError) as caught:
        planned(log, startingOffsets='{"0": 1}', startingTimestamp="0")
    assert caught.value.option == "startingTimestamp"


def test_a_plain_reader_is_not_one_that_spark_would_refuse() -> None:
    assert BatchReader.pushFilters is ds.DataSourceReader.pushFilters
    assert FilteringReader.pushFilters is not ds.DataSourceReader.pushFilters


# --- what the log has lost ----------------------------------------------------------------------------------------


class Elsewhere(NamedTuple):
    """A piece of another kind."""

    partition: int
    start: int
    end: int
    size_bytes: int = 1

    def within(self, start: int, end: int) -> Self:
        return self._replace(start=start, end=end)

    def record_batches(self, settings: ReadSettings) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"offset": pa.array(range(self.start, self.end), pa.int64())})


class Cellar:
    def __init__(self, *spans: tuple[int, int]) -> None:
        self.spans = spans

    def fill(self, lost: Range) -> list[Elsewhere]:
        return [
            Elsewhere(lost.partition, max(start, lost.start), min(end, lost.end))
            for start, end in self.spans
            if start < lost.end and end > lost.start
        ]


def trimmed_plan(log: Path, filler: Cellar | None, *, skip: bool = False) -> ReadPlan:
    asking = FileStream(str(log), NAME)
    facts = StreamFacts("id", (PartitionFacts(0, 1000, 6000, 1),))
    return plan(asking, "s", facts, [Range(0, 200, 1500)], 1 << 20, skip_lost=skip, filler=filler)


def test_lost_ranges_are_filled_first_and_named_then(log: Path) -> None:
    whole = trimmed_plan(log, Cellar((0, 600), (600, 1000)))
    assert [(type(piece), piece.start, piece.end) for piece in whole.pieces] == [
        (Elsewhere, 200, 600),
        (Elsewhere, 600, 1000),
        (HotPiece, 1000, 1500),
    ]
    for filler, text in ((None, "[200, 1000)"), (Cellar((0, 900)), "[900, 1000)")):
        with pytest.raises(FlowMeshSparkError, match="partition 0") as caught:
            trimmed_plan(log, filler)
        assert caught.value.condition is Condition.DATA_LOST
        assert text in str(caught.value)
    skipped = trimmed_plan(log, Cellar((300, 900)), skip=True)
    assert skipped.skipped == (Range(0, 200, 300), Range(0, 900, 1000))
    assert skipped.records == 600 + 500


# --- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 7, 50, 109, 110, 1000])
def test_a_limit_in_records_is_shared_and_used_up(rows: int) -> None:
    ranges = {0: (0, 100), 1: (50, 60), 2: (5, 5)}
    ends = within_rows(ranges, rows)
    taken = {partition: ends[partition] - start for partition, (start, _) in ranges.items()}
    assert sum(taken.values()) == min(rows, 110)
    assert all(0 <= taken[partition] <= end - start for partition, (start, end) in ranges.items())


def test_a_limit_in_bytes_moves_on_and_is_nearly_kept(log: Path) -> None:
    asking = FileStream(str(log), NAME)
    position, steps = 0, []
    while position < BLOCKS * ROWS:
        end = within_bytes(asking, [Range(0, position, BLOCKS * ROWS)], 300 * 1024)[0]
        assert end > position
        steps.append(end - position)
        position = end
    assert max(steps) * WIDTH < 400 * 1024
    assert len(steps) <= 8


# --- reading ------------------------------------------------------------------------------------------------------


def table(log: Path, start: int, end: int, *names: str, **settings: Any) -> pa.Table:
    settings_ = ReadSettings(Location(NAME, None, str(log)), names, settings.get("verify", False), False)
    return pa.Table.from_batches(HotPiece(0, start, end, 0).record_batches(settings_))


def test_a_piece_gives_its_rows_and_no_others(log: Path) -> None:
    found = table(log, 150, 777, "offset", "timestamp", "value", verify=True)
    assert found.column("offset").to_pylist() == list(range(150, 777))
    assert found.column("value").to_pylist() == [b"%0*d" % (WIDTH, number) for number in range(150, 777)]
    assert found.column("timestamp").to_pylist()[0] == at(150)


def test_headers_nulls_and_control_batches(tmp_path: Path) -> None:
    with closing(open_local_log(tmp_path / "mixed", create="mixed")) as log:
        log.write([columns.encode([b"a"], headers=[[(b"\xff", b"x")]])])
        log.write([columns.encode([b"secret"], kind=BatchKind.CONTROL)])
        log.write([columns.encode([None, b"b"], keys=[b"k", None])])
        log.sync()
    found = table(tmp_path / "mixed", 0, 4, "offset", "key", "value", "headers").to_pylist()
    assert [row["offset"] for row in found] == [0, 2, 3]
    assert [row["value"] for row in found] == [b"a", None, b"b"]
    assert [row["key"] for row in found] == [None, b"k", None]
    assert found[0]["headers"] == [{"key": "�", "value": b"x"}]
    assert found[1]["headers"] == []
