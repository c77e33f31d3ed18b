"""Whether an archive is what was archived: its manifests, its files, and what their rows say. Needs pyarrow."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flowmesh.archive import manifest as manifests
from flowmesh.archive import names
from flowmesh.archive.manifest import ArchivedFile, Manifest
from flowmesh.archive.store import ArchiveFiles, latest, manifest_numbers, strays
from flowmesh.base.errors import FlowMeshError
from flowmesh.format.checkpoint import Checkpoint


class FileToCheck(NamedTuple):
    location: str
    partition: int
    file: ArchivedFile


class ArchiveCheck(NamedTuple):
    manifest: Manifest | None
    files: int
    records: int
    size_bytes: int
    faults: tuple[str, ...]
    notes: tuple[str, ...]
    """What is odd, and takes nothing away."""

    @property
    def sound(self) -> bool:
        return not self.faults


Run = Callable[[list[FileToCheck]], Iterable[str | None]]
"""`file_fault` of each, side by side."""


def check_archive(store: ArchiveFiles, run: Run, *, known_hash: str | None = None) -> ArchiveCheck:
    """Everything that can be told from the archive alone. `known_hash` is of a manifest, and was kept elsewhere."""
    try:
        manifest = latest(store)
    except FlowMeshError as error:
        return ArchiveCheck(None, 0, 0, 0, (error.message,), ())
    if manifest is None:
        return ArchiveCheck(None, 0, 0, 0, (f"there is no archive at {store.root}",), ())
    faults = manifests.faults(manifest) + _broken_history(store, known_hash)
    wanted = [
        FileToCheck(store.root, partition.partition, file)
        for partition in manifest.partitions
        for file in partition.files
    ]
    faults += [fault for fault in run(wanted) if fault is not None]
    notes = [f"{name} is not part of the archive: a run was cut short" for name in strays(store, manifest)]
    return ArchiveCheck(
        manifest,
        len(wanted),
        sum(each.file.records for each in wanted),
        sum(each.file.size_bytes for each in wanted),
        tuple(faults),
        tuple(notes),
    )


def _broken_history(store: ArchiveFiles, known_hash: str | None) -> list[str]:
    """The manifests that are still there, each against the one before it."""
    found: list[Manifest] = []
    faults = []
    for number in manifest_numbers(store):
        try:
            found.append(manifests.decode(store.read(names.manifest_name(number))))
        except FileNotFoundError:
            continue  # a run just took it away
        except FlowMeshError as error:
            faults.append(f"manifest {number}: {error.message}")
    for before, after in pairwise(found):
        if after.number == before.number + 1 and after.previous != before.hash:
            faults.append(f"manifest {after.number} does not follow manifest {before.number}: one of them was forged")
        faults += _forgotten(before, after)
    if known_hash is not None and known_hash not in {each.hash for each in found} | {each.previous for each in found}:
        faults.append(f"no manifest has the hash {known_hash}: history was rewritten, or that one is long replaced")
    return faults


def _forgotten(before: Manifest, after: Manifest) -> list[str]:
    missing = set(before.files) - set(after.files)
    return [f"manifest {after.number} forgets {file.name}" for file in sorted(missing, key=lambda file: file.name)]


def file_fault(partition: int, file: ArchivedFile, data: pa.Buffer) -> str | None:
    """Why these bytes are not the file that the manifest means."""
    if len(data) != file.size_bytes:
        return f"{file.name} has {len(data)} bytes, not {file.size_bytes}"
    if hashlib.sha256(data).hexdigest() != file.sha256:
        return f"{file.name} was changed: its hash is not the one that was archived"
    try:
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as parquet:
            return _rows_fault(partition, file, parquet)
    except (pa.ArrowException, OSError) as error:
        return f"{file.name} cannot be read: {error}"


def local_fault(wanted: FileToCheck) -> str | None:
    """The same for a file that this process can open."""
    try:
        with pa.memory_map(f"{wanted.location}/{wanted.file.name}", "r") as source:
            return file_fault(wanted.partition, wanted.file, source.read_buffer())
    except FileNotFoundError:
        return missing(wanted.file)
    except OSError as error:
        return f"{wanted.file.name} cannot be read: {error}"


def missing(file: ArchivedFile) -> str:
    return f"{file.name} is missing"


def _rows_fault(partition: int, file: ArchivedFile, parquet: pq.ParquetFile) -> str | None:
    """Every offset once, in order, none outside."""
    rows, expected = 0, file.base_offset
    for batch in parquet.iter_batches(columns=["partition", "offset"]):
        offsets = batch.column("offset")
        steps = pc.subtract(offsets[1:], offsets[:-1])
        if offsets[0].as_py() < expected or (len(steps) and pc.min(steps).as_py() < 1):
            return f"{file.name} holds offsets twice, or out of order"
        if pc.any(pc.not_equal(batch.column("partition"), partition)).as_py():
            return f"{file.name} holds records of another partition"
        rows, expected = rows + len(offsets), offsets[-1].as_py() + 1
    if rows != file.records or expected > file.end_offset:
        return f"{file.name} holds {rows} records up to offset {expected}, not {file.records} up to {file.end_offset}"
    return None


def checkpoint_fault(manifest: Manifest, checkpoint: Checkpoint) -> str | None:
    """Why the archive is not of the history that was signed; None when it is."""
    held = next((each for each in manifest.partitions if each.chain.hash.hex() == checkpoint.chain_hash), None)
    if held is None:
        return "the checkpoint is of another chain than those that are archived."
    offset = checkpoint.end_offset
    if not held.start_offset <= offset <= held.end_offset:
        return f"the checkpoint is of offset {offset}; the archive holds [{held.start_offset}, {held.end_offset})."
    known = held.hashes_at(offset)
    if not known:
        return f"no file and no segment of the archive ends at offset {offset}, so the checkpoint cannot be compared."
    if checkpoint.block_hash in known or (offset == 0 and held.start_offset == 0):
        return None
    return f"the block that ends at offset {offset} is not the one that was signed: history was rewritten."
