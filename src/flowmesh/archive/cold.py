"""The cold tier as readers without a JVM see it: its manifest, and the rows of its files. Needs pyarrow."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from flowmesh.archive.manifest import ArchivedFile
from flowmesh.archive.store import ArchiveFiles, LocalStore, is_local
from flowmesh.base.errors import BadRequest, CorruptData
from flowmesh.base.limits import MIB

READ_ROWS = 64 * 1024
_HASH_BYTES = 4 * MIB
_SPELLINGS = {"s3a": "s3", "s3n": "s3"}
"""What Hadoop calls them, and what Arrow does."""


def files_of(location: str) -> ArchiveFiles:
    return LocalStore(location) if is_local(location) else ArrowFiles(location)


class ArrowFiles:
    """An archive on an object store, by pyarrow's own clients and what the environment says of credentials."""

    def __init__(self, location: str) -> None:
        self._root = location.rstrip("/")
        self.files, self.place = _arrow_place(self._root)

    @property
    def root(self) -> str:
        return self._root

    def names(self, directory: str = "") -> list[str]:
        return sorted(info.base_name for info in self._listed(directory))

    def sizes(self) -> dict[str, int]:
        return {info.base_name: int(info.size) for info in self._listed("")}

    def read(self, name: str) -> bytes:
        with self.files.open_input_stream(f"{self.place}/{name}") as stream:
            return bytes(stream.readall())

    def _listed(self, directory: str) -> list[Any]:
        selector = fs.FileSelector(f"{self.place}/{directory}".rstrip("/"), allow_not_found=True)
        return [info for info in self.files.get_file_info(selector) if info.type == fs.FileType.File]


def _arrow_place(location: str) -> tuple[Any, str]:
    scheme = urlsplit(location).scheme
    spelled = location.replace(f"{scheme}:", f"{_SPELLINGS.get(scheme, scheme)}:", 1)
    try:
        found, place = fs.FileSystem.from_uri(spelled)
    except (pa.ArrowException, OSError) as error:
        raise BadRequest(
            f"pyarrow cannot read {location[:200]!r}: {error}",
            field="archive",
            hint="flowmesh.spark.read() reads it with Spark's own file systems.",
        ) from None
    return found, place.rstrip("/")


def read_rows(
    location: str, file: ArchivedFile, columns: Sequence[str], start: int, end: int, *, verify: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of one file with offsets in `[start, end)`: of `parquet.SCHEMA`, the columns asked for, in their order.

    The checksum of every page is looked at; `verify` also hashes the whole file before anything of it is given out.
    """
    source = _opened(location, file.name)
    with source:
        if verify and _digest(source) != file.sha256:
            raise CorruptData(f"{location}/{file.name} is not the file that was archived: its hash is another one.")
        try:
            yield from _rows(source, columns, start, end)
        except (pa.ArrowException, OSError) as error:
            raise CorruptData(f"{location}/{file.name} cannot be read: {error}") from error


def _rows(source: pa.NativeFile, columns: Sequence[str], start: int, end: int) -> Iterator[pa.RecordBatch]:
    parquet = pq.ParquetFile(source, page_checksum_verification=True)
    groups = _groups(parquet.metadata, start, end)
    wanted = list(dict.fromkeys([*columns, "offset"]))
    for batch in parquet.iter_batches(READ_ROWS, row_groups=groups, columns=wanted):
        offsets = batch.column("offset")
        if offsets[0].as_py() < start or offsets[-1].as_py() >= end:
            inside = pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end))
            batch = batch.filter(inside)
        if len(batch):
            yield batch.select(list(columns)) if columns else batch.select([])


def _groups(metadata: pq.FileMetaData, start: int, end: int) -> list[int]:
    """Row groups that may hold such offsets; all whose statistics do not say."""
    column = metadata.schema.to_arrow_schema().get_field_index("offset")
    found = []
    for number in range(metadata.num_row_groups):
        told = metadata.row_group(number).column(column).statistics
        if told is None or not told.has_min_max or (told.max >= start and told.min < end):
            found.append(number)
    return found


def _opened(location: str, name: str) -> pa.NativeFile:
    try:
        if is_local(location):
            return pa.memory_map(f"{LocalStore(location).root}/{name}", "r")
        files, place = _arrow_place(location)
        return files.open_input_file(f"{place}/{name}")
    except FileNotFoundError as error:
        raise CorruptData(
            f"{location}/{name} is missing, and the manifest names it.",
            field="archive",
            hint="'flowmesh archive verify' says what else is; restore it from a copy.",
        ) from error


def _digest(source: pa.NativeFile) -> str:
    digest = hashlib.sha256()
    while data := source.read(_HASH_BYTES):
        digest.update(data)
    source.seek(0)
    return digest.hexdigest()
