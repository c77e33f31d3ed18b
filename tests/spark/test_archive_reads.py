"""Reads over both tiers: one offset space, each record once, wherever a read begins, ends or is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import flowmesh.spark
from flowmesh.base.errors import OffsetOutOfRange
from flowmesh.base.times import to_text
from flowmesh.log.appender import Appender
from flowmesh.log.retention import Retention
from flowmesh.spark import fetching, planning
from flowmesh.spark.errors import FlowMeshSparkError
from flowmesh.spark.location import Location, Range
from flowmesh.spark.options import StreamName
from flowmesh.spark.planning import HotPiece, ReadSettings
from flowmesh.spark.tiered import ArchiveLookup
from tests.spark.archives import SMALL, archive, fill, log_rows, manifest_of, session, written_log

pytestmark = pytest.mark.usefixtures("spark")


class History:
    """A log of which the beginning is archived, and only there, and what comes next is in both."""

    def __init__(self, root: Path, log: Appender) -> None:
        self.log_dir, self.cold = root / "log", root / "cold"
        self.records = log_rows(self.log_dir)
        archive(self.log_dir, self.cold)
        log.trim(Retention(size_bytes=80_000))
        fill(log, 30)
        archive(self.log_dir, self.cold)
        fill(log, 10)
        self.records += log_rows(self.log_dir)[-40 * 50 :]
        self.start = log.view.start_offset
        self.archived = manifest_of(self.cold).partitions[0].end_offset
        assert 0 < self.start < self.archived < len(self.records)
        assert [record[0] for record in self.records] == list(range(len(self.records)))

    def reader(self, **options: Any) -> Any:
        return session().read.format("flowmesh").options(dataDir=str(self.log_dir), archive=str(self.cold), **options)

    def native(self, **options: Any) -> Any:
        return flowmesh.spark.read(session(), dataDir=str(self.log_dir), archive=str(self.cold), **options)


@pytest.fixture
def history(tmp_path: Path) -> Any:
    with written_log(tmp_path / "log", 30) as log:
        yield History(tmp_path, log)


def rows(frame: Any) -> list[tuple[Any, ...]]:
    """Offset, time in microseconds, key, value and headers, in the order of offsets."""
    found = frame.select("offset", "timestamp", "key", "value", "headers").orderBy("offset").toArrow()
    return [
        (row["offset"], int(row["timestamp"].timestamp() * 1_000_000 + 0.5), row["key"], row["value"],
         tuple((header["key"].encode(), header["value"]) for header in row["headers"]))
        for row in found.to_pylist()
    ]  # fmt: skip


def expected(records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(record[0], record[1] // 1000, *record[2:]) for record in records]


def test_the_whole_history_is_read_as_one(history: History) -> None:
    assert rows(history.reader().load()) == expected(history.records)
    assert rows(history.native()) == expected(history.records)
    assert history.reader().load().count() == history.native().count() == len(history.records)


def test_any_range_over_both_tiers_is_exact(history: History) -> None:
    end = len(history.records)
    archived = history.archived
    for low, high in [(1, 777), (777, archived), (history.start - 1, history.start), (archived - 1, end), (end, end)]:
        bounds = {"startingOffsets": f'{{"0": {low}}}', "endingOffsets": f'{{"0": {high}}}'}
        assert [row["offset"] for row in history.reader(**bounds, columns="offset").load().collect()] == list(
            range(low, high)
        )
        found = history.native(**bounds, columns="offset").orderBy("offset").collect()
        assert [row["offset"] for row in found] == list(range(low, high))


def test_times_are_found_in_the_tier_that_has_them(history: History) -> None:
    for offset in (1, history.start - 2, history.start, history.archived + 3):
        moment = to_text(history.records[offset][1])
        until = to_text(history.records[offset + 20][1])
        options = {"startingTimestamp": moment, "endingTimestamp": until, "columns": "offset"}
        found = [row["offset"] for row in history.reader(**options).load().collect()]
        assert found == list(range(offset, offset + 20))
        assert history.native(**options).count() == 20


def test_filters_are_kept_whoever_reads(history: History) -> None:
    low, high = 100, history.archived + 5
    where = f"offset >= {low} AND offset < {high} AND key = X'6b65792d31'"
    wanted = [record[0] for record in history.records[low:high] if record[2] == b"key-1"]
    for frame in (history.reader().load(), history.native()):
        assert [row["offset"] for row in frame.where(where).select("offset").orderBy("offset").collect()] == wanted


def test_columns_are_the_same_from_both(history: History) -> None:
    for frame in (history.reader().load(), history.native()):
        assert frame.columns[:5] == ["tenant", "namespace", "stream", "partition", "offset"]
        told = frame.selectExpr("stream", "partition", "block_id IS NULL AS archived", "offset").orderBy("offset")
        first, last = told.head(1)[0], told.tail(1)[0]
        assert (first["stream"], first["partition"], first["archived"]) == ("log", 0, True)
        assert (last["stream"], last["partition"], last["archived"]) == ("log", 0, False)


def test_without_the_archive_what_is_lost_is_named(history: History) -> None:
    reader = session().read.format("flowmesh").options(dataDir=str(history.log_dir), startingOffsets='{"0": 0}')
    with pytest.raises(Exception, match="FLOWMESH_DATA_LOST"):
        reader.option("archive", "none").load().count()
    with pytest.raises(Exception, match="there is no archive at"):
        reader.option("archive", str(history.cold / "no")).load().count()


def test_damage_in_the_cold_tier_is_never_served(history: History) -> None:
    place = history.cold / manifest_of(history.cold).files[0].name
    data = bytearray(place.read_bytes())
    data[len(data) // 3] ^= 1
    place.write_bytes(data)
    for frame in (history.reader().load(), history.reader(verify="true").load(), history.native()):
        with pytest.raises(Exception, match=r"FLOWMESH_DATA_CORRUPT|checksum|CRC"):
            frame.collect()


def test_a_stream_that_starts_in_the_past_goes_through_both(history: History, tmp_path: Path) -> None:
    """In steps that end inside files, inside blocks and between the tiers."""
    target = tmp_path / "out"
    source = session().readStream.format("flowmesh").options(
        dataDir=str(history.log_dir), archive=str(history.cold), startingOffsets="earliest",
        maxBytesPerTrigger="48KiB", columns="offset,value",
    )  # fmt: skip
    query = (
        source.load()
        .writeStream.format("parquet")
        .option("path", str(target))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert len(query.recentProgress) > 3
    found = session().read.parquet(str(target)).orderBy("offset").collect()
    assert [row["offset"] for row in found] == list(range(len(history.records)))
    assert [row["value"] for row in found] == [record[3] for record in history.records]


def test_what_goes_cold_while_a_task_reads_it_is_read_there(tmp_path: Path) -> None:
    """A plan of the log alone; then the log drops its pieces, also under a task that has begun."""
    with written_log(tmp_path / "log", 60) as log:
        records = log_rows(tmp_path / "log")
        location = Location(StreamName("default", "default", "log"), None, str(tmp_path / "log"))
        settings = ReadSettings(
            location, ("offset", "value"), False, False, ArchiveLookup(location, str(tmp_path / "cold"))
        )
        begun = HotPiece(0, 10, len(records) - 3, 1).record_batches(settings._replace(names=("offset",)))
        archive(tmp_path / "log", tmp_path / "cold")
        log.trim(Retention(size_bytes=0))
        assert log.view.start_offset > 1000
        found = list(HotPiece(0, 10, len(records) - 3, 1).record_batches(settings))
        offsets = [offset for batch in found for offset in batch.column("offset").to_pylist()]
        assert offsets == list(range(10, len(records) - 3))
        assert [value for batch in found for value in batch.column("value").to_pylist()] == [
            record[3] for record in records[10:-3]
        ]
        assert [offset for batch in begun for offset in batch.column("offset").to_pylist()] == offsets
        with pytest.raises(FlowMeshSparkError, match="FLOWMESH_DATA_LOST"):
            list(HotPiece(0, 10, 20, 1).record_batches(settings._replace(filler=None)))
        late = HotPiece(0, 10, len(records), 1).record_batches(settings._replace(filler=None, skip_lost=True))
        assert next(late).column("offset")[0].as_py() == log.view.start_offset


def test_a_log_that_is_lost_under_a_task_gives_out_what_was_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Blocks that were read before the log lost the next ones are not dropped with them, and none comes twice."""
    with written_log(tmp_path / "log", 60) as log:
        records = log_rows(tmp_path / "log")
        archive(tmp_path / "log", tmp_path / "cold", SMALL._replace(include_open=True))
        location = Location(StreamName("default", "default", "log"), None, str(tmp_path / "log"))
        settings = ReadSettings(location, ("offset",), False, False, ArchiveLookup(location, str(tmp_path / "cold")))
        whole = fetching.stored_blocks

        def losing(place: Location, wanted: Range, *, verify: bool = False) -> Iterator[Any]:
            for row, stored in enumerate(whole(place, wanted, verify=verify)):
                if row == 7:
                    raise OffsetOutOfRange(stored.batch.header.base_offset, len(records) - 20, len(records))
                yield stored

        monkeypatch.setattr(planning, "stored_blocks", losing)
        found = HotPiece(0, 3, len(records), 1).record_batches(settings)
        offsets = [offset for batch in found for offset in batch.column("offset").to_pylist()]
        assert offsets == list(range(3, len(records)))
        assert log.view.start_offset == 0
