"""The cold tier as pieces of a read beside the log's own: one offset space, whoever holds which part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from flowmesh.archive.cold import files_of, read_rows
from flowmesh.archive.manifest import ArchivedFile, Manifest
from flowmesh.archive.store import ArchiveFiles, latest
from flowmesh.base.errors import NotFound
from flowmesh.spark.location import Range
from flowmesh.spark.planning import ReadSettings
from flowmesh.spark.reading import RECORD_COLUMNS

_NOT_ARCHIVED = "block_id"


class ColdPiece(NamedTuple):
    """A file of the archive, or the part of it that is wanted."""

    partition: int
    start: int
    end: int
    size_bytes: int
    location: str
    file: ArchivedFile

    def within(self, start: int, end: int) -> Self:
        return self._replace(start=start, end=end)

    def record_batches(self, settings: ReadSettings) -> Iterator[pa.RecordBatch]:
        names = [name for name in settings.names if name != _NOT_ARCHIVED]
        for batch in read_rows(self.location, self.file, names, self.start, self.end, verify=settings.verify):
            if not settings.names:
                yield pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
                continue
            columns = [
                pa.nulls(batch.num_rows, RECORD_COLUMNS[name])
                if name == _NOT_ARCHIVED
                else batch.column(name).cast(RECORD_COLUMNS[name])
                for name in settings.names
            ]
            yield pa.RecordBatch.from_arrays(columns, names=list(settings.names))


class ColdTier:
    """One manifest: what it holds does not change while a query is planned with it."""

    def __init__(self, location: str, manifest: Manifest) -> None:
        self.location = location
        self.manifest = manifest

    @classmethod
    def at(cls, location: str, files: Callable[[str], ArchiveFiles] = files_of) -> ColdTier:
        manifest = latest(files(location))
        if manifest is None:
            raise NotFound(f"there is no archive at {location}.", field="archive")
        return cls(location, manifest)

    def start(self, partition: int) -> int | None:
        """Where the archive of a partition begins."""
        held = self.manifest.partition(partition)
        return held.start_offset if held is not None and held.segments else None

    def end(self, partition: int) -> int:
        held = self.manifest.partition(partition)
        return held.end_offset if held is not None else 0

    def fill(self, lost: Range) -> Sequence[ColdPiece]:
        """Pieces inside `lost`, in order; what the archive does not have is left out."""
        held = self.manifest.partition(lost.partition)
        found = []
        for file in held.files if held is not None else ():
            start, end = max(file.base_offset, lost.start), min(file.end_offset, lost.end)
            if start < end:
                size = file.size_bytes * (end - start) // max(file.end_offset - file.base_offset, 1)
                found.append(ColdPiece(lost.partition, start, end, size, self.location, file))
        return found

    def find(self, partition: int, time_ns: int) -> int | None:
        """The first archived offset whose record is not older; None when all are older."""
        held = self.manifest.partition(partition)
        for file in held.files if held is not None else ():
            if file.records and file.max_time_ns >= time_ns:
                for batch in read_rows(
                    self.location, file, ["offset", "timestamp_ns"], file.base_offset, file.end_offset
                ):
                    rows = batch.filter(pc.greater_equal(batch.column("timestamp_ns"), time_ns))
                    if rows.num_rows:
                        return int(rows.column("offset")[0].as_py())
        return None
