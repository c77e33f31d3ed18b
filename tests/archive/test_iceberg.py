"""The files of an archive as an Iceberg table: nothing is copied, nothing is added twice."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

pytest.importorskip("pyiceberg")

import pyarrow.parquet as pq

from flowmesh.archive import manifest as manifests
from flowmesh.archive.growing import Anchor, grown
from flowmesh.archive.iceberg import register_archive
from flowmesh.archive.manifest import Manifest
from flowmesh.archive.names import DIRECTORY, manifest_name
from flowmesh.archive.parquet import write_piece
from flowmesh.archive.pieces import pieces
from flowmesh.archive.store import LocalStore
from flowmesh.assemble import open_local_log
from flowmesh.base.errors import BadRequest, NotFound
from flowmesh.base.limits import KIB
from flowmesh.format import columns
from flowmesh.log.appender import Appender
from flowmesh.log.options import LogOptions

pytestmark = pytest.mark.filterwarnings("default")


def fill(log: Appender) -> None:
    for _ in range(30):
        base = log.view.end_offset
        log.write([columns.encode([b"%d" % number * 50 for number in range(base, base + 50)])])
        log.sync()


def archived(log: Appender, root: Path, before: Manifest | None) -> Manifest:
    """By hand: the steps of a run, without Spark."""
    view = log.view
    (root / DIRECTORY).mkdir(parents=True, exist_ok=True)
    held = before.partition(0) if before is not None else None
    wanted = pieces(view, log.directory, 0, held, include_open=True)
    written = [write_piece(piece, root / piece.name) for piece in wanted]
    first = view.segments[0].header
    anchor = Anchor(view.chain, first.previous_segment_hash, first.previous_block_hash)
    manifest = grown(before, "orders", written, {0: anchor}, 1)
    (root / manifest_name(manifest.number)).write_bytes(manifests.encode(manifest))
    return manifest


def test_what_is_new_is_added_and_nothing_twice(tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    store = LocalStore(str(tmp_path / "cold"))
    log = open_local_log(tmp_path / "log", LogOptions(segment_bytes=64 * KIB, disk_reserve_bytes=0), create="orders/0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(NotFound):
            register_archive(store, "lake", "shop.orders", catalog)
        fill(log)
        first = archived(log, tmp_path / "cold", None)
        assert register_archive(store, "lake", "shop.orders", catalog) == (len(first.files), 0, 1500)
        assert register_archive(store, "lake", "shop.orders", catalog) == (0, len(first.files), 1500)
        fill(log)
        log.close()
        second = archived(log, tmp_path / "cold", first)
        added = len(second.files) - len(first.files)
        assert register_archive(store, "lake", "shop.orders", catalog) == (added, len(first.files), 3000)
        table = load_catalog("lake", **catalog).load_table("shop.orders")
        rows = table.scan(selected_fields=("offset", "value")).to_arrow().sort_by("offset")
        assert rows.column("offset").to_pylist() == list(range(3000))
        assert rows.column("value").to_pylist() == [b"%d" % number * 50 for number in range(3000)]
        assert {task.file.file_path for task in table.scan().plan_files()} == {
            f"file://{tmp_path}/cold/{file.name}" for file in second.files
        }
        snapshot = table.current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        assert snapshot.summary["flowmesh.manifest-hash"] == second.hash
        with pytest.raises(BadRequest, match="is not of the archive"):
            register_archive(_copy(store, tmp_path / "other"), "lake", "shop.orders", catalog)
    assert sum(pq.read_metadata(tmp_path / "cold" / file.name).num_rows for file in second.files) == 3000


def _copy(store: LocalStore, place: Path) -> LocalStore:
    import shutil

    shutil.copytree(store.root, place)
    return LocalStore(str(place))


def test_a_catalog_that_nobody_configured_is_a_clear_error(tmp_path: Path) -> None:
    log = open_local_log(tmp_path / "log", LogOptions(disk_reserve_bytes=0), create="orders/0")
    fill(log)
    archived(log, tmp_path / "cold", None)
    log.close()
    store = LocalStore(str(tmp_path / "cold"))
    with pytest.raises(BadRequest, match="cannot be opened") as told:
        register_archive(store, "nobody-has-this", "shop.orders", {})
    assert told.value.hint is not None
    with pytest.raises(BadRequest, match=r"write namespace\.name"):
        register_archive(store, "lake", "orders", {"type": "in-memory", "warehouse": f"file://{tmp_path}"})
