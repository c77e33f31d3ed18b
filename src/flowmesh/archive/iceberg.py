"""The files of an archive as an Apache Iceberg table, as they are. Needs the extra `flowmesh[iceberg]`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from flowmesh.archive.parquet import SCHEMA
from flowmesh.archive.store import ArchiveFiles, is_local, latest
from flowmesh.base.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

PROPERTY = "flowmesh.archive"
"""Of the table: where the archive lies. A table is of one archive."""
MANIFEST_PROPERTY = "flowmesh.manifest-hash"
"""Of a snapshot: which manifest it stands for."""


class Registered(NamedTuple):
    added: int
    present: int
    records: int


def register_archive(files: ArchiveFiles, catalog: str, table: str, properties: Mapping[str, str]) -> Registered:
    """Adds what the manifest names and the table does not have. Nothing is copied or written again."""
    manifest = latest(files)
    if manifest is None:
        raise NotFound(f"there is no archive at {files.root}.", field="location")
    found = _table(_catalog(catalog, properties), table, files.root)
    root = f"file://{files.root}" if is_local(files.root) else files.root
    wanted = {f"{root}/{file.name}": file.records for file in manifest.files}
    present = {task.file.file_path for task in found.scan().plan_files()}
    added = [path for path in wanted if path not in present]
    if added:
        found.add_files(added, snapshot_properties={MANIFEST_PROPERTY: manifest.hash}, check_duplicate_files=False)
    return Registered(len(added), len(present), sum(wanted.values()))


def _catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise BadRequest(
            f"pyiceberg cannot be imported: {error}.", field="catalog", hint="Install 'flowmesh[iceberg]'."
        ) from None
    try:
        return load_catalog(name, **dict(properties))
    except ValueError as error:
        raise BadRequest(
            f"the catalog {name!r} cannot be opened: {error}",
            field="catalog",
            hint="Configure it in .pyiceberg.yaml, or give --property type=… and what it needs.",
        ) from None


def _table(catalog: Catalog, name: str, root: str) -> Table:
    from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError

    namespace, dot, _ = name.rpartition(".")
    if not dot:
        raise BadRequest(f"{name!r} is no table; write namespace.name.", field="table")
    try:
        found = catalog.load_table(name)
    except NoSuchTableError:
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(namespace)
        return catalog.create_table(name, SCHEMA, properties={PROPERTY: root})
    other = found.properties.get(PROPERTY, "something else")
    if other != root:
        raise BadRequest(f"the table {name} is not of the archive at {root}, but of {other}.", field="table")
    return found
