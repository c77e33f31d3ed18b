"""The archive job: every record of closed segments once, in files that are the same whoever writes them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flowmesh.archive import names
from flowmesh.archive.store import LocalStore
from flowmesh.archive.store import publish as publish_manifest
from flowmesh.base.errors import AlreadyOpen, BadRequest, CorruptData
from flowmesh.format import columns
from flowmesh.log.retention import Retention
from flowmesh.spark.archive import job
from flowmesh.spark.archive.job import run_archive
from flowmesh.spark.archive.origin import log_origin
from tests.spark.archives import (
    SMALL,
    archive,
    by_directory,
    by_manifest,
    cold_rows,
    fill,
    log_rows,
    manifest_of,
    session,
    written_log,
)

pytestmark = pytest.mark.usefixtures("spark")


def test_closed_segments_are_archived_once_and_the_rest_follows(tmp_path: Path) -> None:
    with written_log(tmp_path / "log") as log:
        first = archive(tmp_path / "log", tmp_path / "cold")
        closed = log.view.active.base_offset
        assert (first.records, first.removed) == (closed, 0)
        assert 0 < closed < log.view.end_offset
        assert cold_rows(by_directory(tmp_path / "cold")) == log_rows(tmp_path / "log")[:closed]

        again = archive(tmp_path / "log", tmp_path / "cold")
        assert (again.files, again.manifest) == (0, first.manifest)

        archive(tmp_path / "log", tmp_path / "cold", SMALL._replace(include_open=True))
        assert cold_rows(by_manifest(tmp_path / "cold")) == log_rows(tmp_path / "log")

        fill(log, 40)
        archive(tmp_path / "log", tmp_path / "cold")
        closed = log.view.active.base_offset
    assert cold_rows(by_directory(tmp_path / "cold")) == log_rows(tmp_path / "log")[:closed]
    assert by_directory(tmp_path / "cold").num_rows == session().read.parquet(str(tmp_path / "cold")).count() == closed
    manifest = manifest_of(tmp_path / "cold")
    assert manifest.number == 3
    assert sorted(LocalStore(str(tmp_path / "cold")).names()) == sorted(file.name for file in manifest.files)


def test_files_are_written_as_documented(tmp_path: Path) -> None:
    with written_log(tmp_path / "log"):
        archive(tmp_path / "log", tmp_path / "cold")
    for file in manifest_of(tmp_path / "cold").files:
        metadata = pq.ParquetFile(tmp_path / "cold" / file.name).metadata
        assert metadata.num_rows == file.records
        by_name = {metadata.row_group(0).column(row).path_in_schema: row for row in range(metadata.num_columns)}
        group = metadata.row_group(0)
        assert all(group.column(row).compression == "ZSTD" for row in by_name.values())
        for name in ("offset", "timestamp", "timestamp_ns"):
            assert "DELTA_BINARY_PACKED" in group.column(by_name[name]).encodings
        assert not group.column(by_name["value"]).has_dictionary_page


def test_who_writes_again_writes_the_same(tmp_path: Path) -> None:
    with written_log(tmp_path / "log"):
        archive(tmp_path / "log", tmp_path / "one")
        archive(tmp_path / "log", tmp_path / "two")
    one, two = manifest_of(tmp_path / "one"), manifest_of(tmp_path / "two")
    assert one.partitions == two.partitions
    assert len({file.sha256 for file in one.files}) == len(one.files)


def test_a_large_segment_becomes_several_files(tmp_path: Path) -> None:
    with written_log(tmp_path / "log", blocks=1) as log:
        for _ in range(40):
            log.write([columns.encode([bytes([number]) * 60_000 for number in range(2)])])
            log.sync()
        log.options = log.options.__class__(segment_bytes=1 << 30, disk_reserve_bytes=0)
        archive(tmp_path / "log", tmp_path / "cold", SMALL._replace(include_open=True))
    manifest = manifest_of(tmp_path / "cold")
    assert len(manifest.files) > 3
    assert cold_rows(by_manifest(tmp_path / "cold")) == log_rows(tmp_path / "log")


class _CutOff(Exception):
    """Where a run ends."""


@pytest.mark.parametrize("at", ["written", "half moved", "moved", "published"])
def test_wherever_a_run_ends_the_next_one_makes_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The end of a run at each step that others can see; what kill -9 does in between is in the tests of processes."""

    class Ending(LocalStore):
        def move(self, temporary: list[tuple[str, str]]) -> None:
            if at == "written":
                raise _CutOff
            super().move(temporary[: len(temporary) // 2] if at == "half moved" else temporary)
            if at == "half moved":
                raise _CutOff

    def publish(store: Any, manifest: Any) -> None:
        if at == "published":
            publish_manifest(store, manifest)
        raise _CutOff

    with written_log(tmp_path / "log") as log:
        archive(tmp_path / "log", tmp_path / "cold")
        fill(log, 60)
        with monkeypatch.context() as patch:
            patch.setattr(job, "LocalStore", Ending)
            patch.setattr(job, "publish", publish)
            with pytest.raises(_CutOff):
                archive(tmp_path / "log", tmp_path / "cold", SMALL._replace(include_open=True))
        fill(log, 30)  # so that the next run cuts its pieces elsewhere
        archive(tmp_path / "log", tmp_path / "cold")
        archive(tmp_path / "log", tmp_path / "cold", SMALL._replace(include_open=True))
    expected = log_rows(tmp_path / "log")
    assert cold_rows(by_directory(tmp_path / "cold")) == expected
    assert cold_rows(by_manifest(tmp_path / "cold")) == expected
    assert LocalStore(str(tmp_path / "cold")).names(names.TEMPORARY) == []


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with written_log(tmp_path / "log"), LocalStore(str(tmp_path / "cold")).lock(), pytest.raises(AlreadyOpen):
        archive(tmp_path / "log", tmp_path / "cold")


def test_a_damaged_log_is_not_archived(tmp_path: Path) -> None:
    with written_log(tmp_path / "log"):
        pass
    place = tmp_path / "log" / "segment-000001.log"
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes(data)
    with pytest.raises(CorruptData, match=r"segment 1, bytes .* failing its checksum"):
        archive(tmp_path / "log", tmp_path / "cold")
    assert LocalStore(str(tmp_path / "cold")).names() == []


def test_what_was_lost_in_between_is_named(tmp_path: Path) -> None:
    with written_log(tmp_path / "log") as log:
        archive(tmp_path / "log", tmp_path / "cold")
        end = log.view.active.base_offset
        fill(log, 60)
        log.trim(Retention(size_bytes=0))
        start = log.view.start_offset
        with pytest.raises(CorruptData, match=rf"offsets \[{end}, {start}\) of partition 0 are lost"):
            archive(tmp_path / "log", tmp_path / "cold")


def test_another_log_is_refused(tmp_path: Path) -> None:
    with written_log(tmp_path / "log"), written_log(tmp_path / "other"):
        archive(tmp_path / "log", tmp_path / "cold")
        with pytest.raises(BadRequest, match="of another stream"):
            archive(tmp_path / "other", tmp_path / "cold")


def test_a_file_that_vanished_keeps_the_log_from_forgetting(tmp_path: Path) -> None:
    told: list[dict[int, int]] = []

    class Holding:
        def hold(self, offsets: dict[int, int]) -> None:
            told.append(offsets)

    with written_log(tmp_path / "log") as log:
        run_archive(session(), log_origin(tmp_path / "log"), str(tmp_path / "cold"), SMALL, holder=Holding())
        end = log.view.active.base_offset
        assert told == [{0: 0}, {0: end}]
        (tmp_path / "cold" / manifest_of(tmp_path / "cold").files[0].name).unlink()
        fill(log, 40)
        with pytest.raises(CorruptData, match="is missing, and the manifest names it"):
            run_archive(session(), log_origin(tmp_path / "log"), str(tmp_path / "cold"), SMALL, holder=Holding())
    assert told[2:] == [{0: end}]


def test_any_file_system_of_spark_will_do(tmp_path: Path) -> None:
    """A scheme that only the JVM knows: Python opens nothing there."""
    (tmp_path / "far").mkdir()
    spark = session()
    spark._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.mesh.link./cold", f"file://{tmp_path}/far")
    spark._jsc.hadoopConfiguration().set("fs.viewfs.impl.disable.cache", "true")
    with written_log(tmp_path / "log") as log:
        archive(tmp_path / "log", "viewfs://mesh/cold/orders")
        archive(tmp_path / "log", tmp_path / "near")
        fill(log, 20)
        stray = names.data_name(bytes(32), 0, 5, 6)
        (tmp_path / "far" / "orders" / stray).write_bytes(b"left over")
        report = archive(tmp_path / "log", "viewfs://mesh/cold/orders", SMALL._replace(include_open=True))
        assert report.removed == 1
    assert cold_rows(by_manifest(tmp_path / "far" / "orders")) == log_rows(tmp_path / "log")
    # What went through the JVM is what Python wrote, byte for byte.
    near, far = manifest_of(tmp_path / "near").files[0], manifest_of(tmp_path / "far" / "orders").files[0]
    assert near == far
    assert (tmp_path / "near" / near.name).read_bytes() == (tmp_path / "far" / "orders" / near.name).read_bytes()
    assert not (tmp_path / "far" / "orders" / names.TEMPORARY).exists()
