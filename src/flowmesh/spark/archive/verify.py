"""`verify --spark`: a whole history hashed in parallel, what the log holds and what was archived, and how they join."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from flowmesh.archive.checking import (
    ArchiveCheck,
    FileToCheck,
    check_archive,
    checkpoint_fault,
    file_fault,
    local_fault,
    missing,
)
from flowmesh.archive.manifest import ArchivedFile, ArchivedPartition, Manifest
from flowmesh.archive.pieces import joint_fault
from flowmesh.archive.store import is_local
from flowmesh.format import segment as segment_format
from flowmesh.format.checkpoint import Checkpoint
from flowmesh.format.names import segment_name
from flowmesh.host.disk import RealDisk
from flowmesh.log.findings import Damage
from flowmesh.log.open_log import look
from flowmesh.log.segment import Segment
from flowmesh.log.surveyor import Surveyor
from flowmesh.log.verify import SegmentReport, VerifyReport, verify_log, verify_segment
from flowmesh.spark.archive.job import store_of
from flowmesh.spark.archive.origin import Origin
from flowmesh.spark.archive.progress import Progress, untold, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HistoryReport(NamedTuple):
    hot: dict[int, VerifyReport]
    """By partition, what the log holds."""
    cold: ArchiveCheck | None
    joints: tuple[str, ...]
    """Where the two do not fit together."""
    checkpoint_fault: str | None

    @property
    def sound(self) -> bool:
        hot = all(not report.damage for report in self.hot.values())
        return hot and (self.cold is None or self.cold.sound) and not self.joints and self.checkpoint_fault is None

    @property
    def records(self) -> int:
        """Of both, those that lie in both counted once."""
        hot = sum(report.records for report in self.hot.values())
        return hot + sum(self._only_cold(held) for held in self._partitions())

    def _partitions(self) -> tuple[ArchivedPartition, ...]:
        return self.cold.manifest.partitions if self.cold is not None and self.cold.manifest is not None else ()

    def _only_cold(self, held: ArchivedPartition) -> int:
        report = self.hot.get(held.partition)
        begin = report.start_offset if report is not None else held.end_offset
        return sum(file.records for file in held.files if file.end_offset <= begin) + sum(
            begin - file.base_offset for file in held.files if file.base_offset < begin < file.end_offset
        )


def verify_history(
    spark: SparkSession,
    origin: Origin | None,
    location: str | None,
    *,
    checkpoint: Checkpoint | None = None,
    known_hash: str | None = None,
    progress: Progress = untold,
) -> HistoryReport:
    """Nothing is trusted and nothing is changed. Damage comes back in the report, never as an exception."""
    hot = _verify_hot(spark, origin, checkpoint, progress) if origin is not None else {}
    cold = None
    if location is not None:
        cold = check_archive(store_of(spark, location), partial(_check_files, spark, progress), known_hash=known_hash)
    manifest = cold.manifest if cold is not None else None
    joints = _joint_faults(origin, hot, manifest) if origin is not None and manifest is not None else []
    fault = _checkpoint_fault(hot, manifest, checkpoint) if checkpoint is not None else None
    return HistoryReport(hot, cold, tuple(joints), fault)


# --- what the log holds -------------------------------------------------------------------------------------------


class _SegmentTask(NamedTuple):
    directory: str
    number: int
    end_position: int
    end_offset: int
    wanted_offset: int | None

    def key(self) -> tuple[str, int, int]:
        return self.directory, self.number, self.end_position


class _SegmentFound(NamedTuple):
    key: tuple[str, int, int]
    header_hash: bytes
    blocks: int
    records: int
    end_offset: int
    last_block_hash: bytes
    hash_at_wanted: bytes | None
    damage: tuple[Damage, ...]

    def report(self, segment: Segment) -> SegmentReport:
        return SegmentReport(
            segment,
            self.blocks,
            self.records,
            self.end_offset,
            self.last_block_hash,
            self.hash_at_wanted,
            self.damage,
        )


def _verify_hot(
    spark: SparkSession, origin: Origin, checkpoint: Checkpoint | None, progress: Progress
) -> dict[int, VerifyReport]:
    wanted = checkpoint.end_offset if checkpoint is not None else None
    tasks = [task for directory in origin.directories.values() for task in _tasks(directory, wanted)]
    sizes = [task.end_position for task in tasks]
    progress.expect(sum(sizes))
    found: dict[tuple[str, int, int], _SegmentFound] = {}
    if tasks:
        with watched(spark, f"verify {origin.stream}", progress, sizes):
            rows = spark.sparkContext.parallelize(tasks, len(tasks)).map(_verify_task)
            found = {each.key: each for each in rows.collect()}
    return {
        partition: verify_log(
            RealDisk(),
            directory,
            checkpoint=checkpoint if _is_of(directory, checkpoint) else None,
            run=partial(_looked_up, directory, found),
        )
        for partition, directory in origin.directories.items()
    }


def _tasks(directory: str, wanted: int | None) -> list[_SegmentTask]:
    survey = look(RealDisk(), directory)
    segments = (*survey.closed, survey.active) if survey.active is not None else survey.closed
    return [
        _SegmentTask(directory, segment.number, segment.end_position, segment.end_offset, wanted)
        for segment in segments
    ]


def _is_of(directory: str, checkpoint: Checkpoint | None) -> bool:
    return checkpoint is not None and look(RealDisk(), directory).chain.hash.hex() == checkpoint.chain_hash


def _verify_task(task: _SegmentTask) -> _SegmentFound:
    disk = RealDisk()
    path = f"{task.directory}/{segment_name(task.number)}"
    try:
        header = segment_format.decode(disk.open(path).read(0, segment_format.SIZE))
    except FileNotFoundError:  # trimmed since the plan; whoever asked for it looks again
        return _SegmentFound(("", 0, 0), b"", 0, 0, 0, b"", None, ())
    source = Surveyor(disk, task.directory).source(task.number)
    segment = Segment(task.number, header, source, task.end_position, task.end_offset, b"", 0, 0, 0, 0, 0)
    report = verify_segment(segment, task.wanted_offset)
    return _SegmentFound(
        task.key(),
        header.hash,
        report.blocks,
        report.records,
        report.end_offset,
        report.last_block_hash,
        report.hash_at_wanted,
        report.damage,
    )


def _looked_up(
    directory: str,
    found: dict[tuple[str, int, int], _SegmentFound],
    verify: Callable[[Segment], SegmentReport],
    segments: Iterable[Segment],
) -> Iterator[SegmentReport]:
    """What executors found; what has changed since the tasks were made is looked at here."""
    for segment in segments:
        known = found.get((directory, segment.number, segment.end_position))
        if known is not None and known.header_hash == segment.header.hash:
            yield known.report(segment)
        else:
            yield verify(segment)


# --- what was archived --------------------------------------------------------------------------------------------


def _check_files(spark: SparkSession, progress: Progress, wanted: list[FileToCheck]) -> list[str | None]:
    sizes = [each.file.size_bytes for each in wanted]
    progress.expect(sum(sizes))
    if not wanted:
        return []
    with watched(spark, f"verify {wanted[0].location}", progress, sizes):
        if is_local(wanted[0].location):
            found: list[str | None] = spark.sparkContext.parallelize(wanted, len(wanted)).map(local_fault).collect()
            return found
        return _check_through_spark(spark, wanted)


def _check_through_spark(spark: SparkSession, wanted: Sequence[FileToCheck]) -> list[str | None]:
    """Files that only Spark can reach come as rows, one for each."""
    known: dict[str, tuple[int, ArchivedFile]] = {each.file.name: (each.partition, each.file) for each in wanted}
    root = wanted[0].location
    present = store_of(spark, root).sizes()
    paths = [f"{root}/{name}" for name in known if name in present]
    told: dict[str, str | None] = {}
    if paths:
        rows = spark.read.format("binaryFile").load(paths).select("path", "content")
        faults = rows.mapInArrow(_FileTask(known), "name string, fault string").collect()
        told = {row["name"]: row["fault"] for row in faults}
    return [told[name] if name in told else missing(file) for name, (_, file) in known.items()]


class _FileTask:
    def __init__(self, known: dict[str, tuple[int, ArchivedFile]]) -> None:
        self._known = known

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            names = [path.rpartition("/")[2] for path in batch.column("path").to_pylist()]
            contents = [content.as_buffer() for content in batch.column("content")]
            faults = [file_fault(*self._known[name], data) for name, data in zip(names, contents, strict=True)]
            yield pa.RecordBatch.from_arrays(
                [pa.array(names, pa.string()), pa.array(faults, pa.string())], names=["name", "fault"]
            )


# --- both ---------------------------------------------------------------------------------------------------------


def _joint_faults(origin: Origin, hot: dict[int, VerifyReport], manifest: Manifest) -> list[str]:
    found = []
    for held in manifest.partitions:
        report = hot.get(held.partition)
        where = f"partition {held.partition}"
        if report is None:
            found.append(f"{where} is archived, and the log does not have it")
            continue
        if report.chain.hash != held.chain.hash:
            found.append(f"{where} is archived of another chain than the log's")
            continue
        if report.start_offset > held.end_offset:
            found.append(f"{where}: offsets [{held.end_offset}, {report.start_offset}) are in neither tier")
        survey = look(RealDisk(), origin.directories[held.partition])
        segments = (*survey.closed, survey.active) if survey.active is not None else survey.closed
        fault = joint_fault(held, segments)
        if fault is not None:
            found.append(f"{where}: {fault}")
    return found


def _checkpoint_fault(hot: dict[int, VerifyReport], manifest: Manifest | None, checkpoint: Checkpoint) -> str | None:
    """Asked of the log where it still has the offset, and else of the archive."""
    of_log = [report for report in hot.values() if report.chain.hash.hex() == checkpoint.chain_hash]
    if of_log and checkpoint.end_offset >= of_log[0].start_offset:
        return of_log[0].checkpoint_fault
    if manifest is not None:
        return checkpoint_fault(manifest, checkpoint)
    return of_log[0].checkpoint_fault if of_log else "the checkpoint is of another chain than those that are here."
