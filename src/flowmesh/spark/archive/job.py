"""The archive job: closed segments become files of the cold tier, and a manifest makes them count.

Whatever ends a run leaves files that no manifest names; the next run removes them and writes the same ones again.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from flowmesh.archive import names
from flowmesh.archive.growing import Anchor, FailedPiece, WrittenPiece, grown
from flowmesh.archive.manifest import Manifest
from flowmesh.archive.pieces import PIECE_BYTES_DEFAULT, ArchivePiece, pieces
from flowmesh.archive.store import ArchiveStore, LocalStore, is_local, latest, publish, strays
from flowmesh.base.errors import CorruptData, FlowMeshError
from flowmesh.host.clock import RealClock
from flowmesh.log.view import LogView
from flowmesh.spark.archive.origin import Origin
from flowmesh.spark.archive.progress import Progress, untold, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUND_PIECES = 64
"""After so many files a manifest is published, so that a long first run is not lost as a whole."""


class Holder(Protocol):
    """Who keeps the log's retention from what is not archived yet."""

    def hold(self, offsets: dict[int, int]) -> None:
        """Everything from these offsets on is still needed."""
        ...


class ArchiveReport(NamedTuple):
    manifest: Manifest | None
    files: int
    records: int
    log_bytes: int
    archive_bytes: int
    removed: int
    """Leftovers of runs that were cut short."""


class ArchiveOptions(NamedTuple):
    piece_bytes: int = PIECE_BYTES_DEFAULT
    include_open: bool = False


def store_of(spark: SparkSession | None, location: str) -> ArchiveStore:
    """The place itself. What is not on this machine is reached through Spark's own file systems."""
    if is_local(location):
        return LocalStore(location)
    from flowmesh.spark.archive.hadoop import HadoopStore

    assert spark is not None, "a location of another kind needs a session"
    return HadoopStore(spark, location)


def run_archive(
    spark: SparkSession,
    origin: Origin,
    location: str,
    options: ArchiveOptions | None = None,
    *,
    holder: Holder | None = None,
    progress: Progress = untold,
) -> ArchiveReport:
    """Archives what is closed and not yet held, and returns when it counts."""
    options = options or ArchiveOptions()
    store = store_of(spark, location)
    with store.lock():
        manifest = latest(store)
        leftovers = strays(store, manifest)
        store.remove([*leftovers, names.TEMPORARY])
        if holder is not None:
            holder.hold(_ends(origin, manifest))
        report = ArchiveReport(manifest, 0, 0, 0, 0, len(leftovers))
        views = {partition: origin.view(partition) for partition in origin.directories}
        planned = _plan(origin, views, manifest, options)
        anchors = {partition: _anchor(view) for partition, view in views.items()}
        progress.expect(sum(piece.size_bytes for piece in planned))
        for begin in range(0, len(planned), ROUND_PIECES):
            part = planned[begin : begin + ROUND_PIECES]
            written = _write(spark, store, part, progress)
            manifest = grown(manifest, origin.stream, written, anchors, RealClock().wall_ns())
            store.move([(piece.temporary, piece.file.name) for piece in written])
            publish(store, manifest)
            _require_there(store, manifest)
            if holder is not None:
                holder.hold(_ends(origin, manifest))
            report = _added(report, manifest, part, written)
        store.remove([names.TEMPORARY])
    return report


def _plan(
    origin: Origin, views: dict[int, LogView], manifest: Manifest | None, options: ArchiveOptions
) -> list[ArchivePiece]:
    found: list[ArchivePiece] = []
    for partition, view in views.items():
        held = manifest.partition(partition) if manifest is not None else None
        found += pieces(
            view,
            origin.directories[partition],
            partition,
            held,
            piece_bytes=options.piece_bytes,
            include_open=options.include_open,
        )
    return found


def _ends(origin: Origin, manifest: Manifest | None) -> dict[int, int]:
    held = {found.partition: found.end_offset for found in manifest.partitions} if manifest is not None else {}
    return {
        partition: held[partition] if partition in held else origin.view(partition).start_offset
        for partition in origin.directories
    }


def _anchor(view: LogView) -> Anchor:
    first = view.segments[0].header
    return Anchor(view.chain, first.previous_segment_hash, first.previous_block_hash)


def _write(
    spark: SparkSession, store: ArchiveStore, planned: Sequence[ArchivePiece], progress: Progress
) -> list[WrittenPiece]:
    if not isinstance(store, LocalStore):
        from flowmesh.spark.archive.pipe import write_through_spark

        return write_through_spark(spark, store, planned, progress)
    directory = f"{store.root}/{names.TEMPORARY}"
    with watched(spark, f"archive to {store.root}", progress, [piece.size_bytes for piece in planned]):
        rows = spark.sparkContext.parallelize(planned, len(planned))
        done: list[WrittenPiece | FailedPiece] = rows.map(_LocalTask(directory)).collect()
    return [_written(piece) for piece in done]


def _written(piece: WrittenPiece | FailedPiece) -> WrittenPiece:
    if isinstance(piece, FailedPiece):
        raise piece.error()
    return piece


class _LocalTask:
    """What an executor does with one piece: it sees the segments and the archive in its own file system."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def __call__(self, piece: ArchivePiece) -> WrittenPiece | FailedPiece:
        from flowmesh.archive.parquet import write_piece

        Path(self._directory).mkdir(parents=True, exist_ok=True)
        name = f"{piece.name}.{uuid.uuid4().hex}.tmp"
        try:
            written = write_piece(piece, Path(self._directory) / name)
        except FlowMeshError as error:
            return FailedPiece.of(error)
        return written._replace(temporary=f"{names.TEMPORARY}/{name}")


def _require_there(store: ArchiveStore, manifest: Manifest) -> None:
    """Before the log may drop anything: what the manifest names lies where it says, whole."""
    sizes = store.sizes()
    for file in manifest.files:
        if sizes.get(file.name) != file.size_bytes:
            found = sizes.get(file.name)
            state = "is missing" if found is None else f"has {found} bytes, not {file.size_bytes}"
            raise CorruptData(
                f"{store.root}/{file.name} {state}, and the manifest names it.",
                hint="Does another run write to this place? 'flowmesh archive verify' tells more.",
            )


def _added(
    report: ArchiveReport, manifest: Manifest, planned: Sequence[ArchivePiece], written: Sequence[WrittenPiece]
) -> ArchiveReport:
    return report._replace(
        manifest=manifest,
        files=report.files + len(written),
        records=report.records + sum(piece.file.records for piece in written),
        log_bytes=report.log_bytes + sum(piece.size_bytes for piece in planned),
        archive_bytes=report.archive_bytes + sum(piece.file.size_bytes for piece in written),
    )
