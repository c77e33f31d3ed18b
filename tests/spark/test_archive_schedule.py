"""A node that archives by itself: nothing is dropped before it is archived, and everything is once it may be."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flowmesh.archive.manifest import Manifest
from flowmesh.archive.store import LocalStore, latest
from flowmesh.client import connect_blocking
from flowmesh.host.archiving import ArchiveSchedule, wanted
from flowmesh.host.settings import Settings
from flowmesh.testing import NodeProcess
from tests.cli.running import run

PATIENCE_S = 150


def eventually(found: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < until
        time.sleep(0.1)


def manifest_at(place: Path) -> Manifest | None:
    return latest(LocalStore(str(place)))


@pytest.mark.timeout(300)
def test_a_node_archives_on_its_own_and_then_forgets(tmp_path: Path) -> None:
    """Retention runs ten times a second and wants everything, and the first run takes seconds to begin."""
    settings = {
        "archive_location": tmp_path / "cold",
        "archive_streams": "default/default/or*, no/such/one",
        "archive_interval_s": 1,
        "retention_interval_s": 0.1,
    }
    with NodeProcess(tmp_path / "node", **settings) as node:
        with connect_blocking(node.url, token=node.token) as client:
            kept = client.create_stream("orders", retention_bytes=0, segment_bytes=65_536)
            client.create_stream("others", retention_bytes=0, segment_bytes=65_536)
            for _ in range(40):
                kept.append_many([b"x" * 100] * 100, partition=0)
            place = tmp_path / "cold" / "default" / "default" / "orders"
            eventually(lambda: (manifest_at(place) or Manifest(0, "", 0, "")).files != ())
            manifest = manifest_at(place)
            assert manifest is not None
            held = manifest.partitions[0]
            assert held.start_offset == 0  # nothing went before it was archived
            eventually(lambda: kept.describe().partitions[0].start_offset >= held.end_offset)
            assert not (tmp_path / "cold" / "default" / "default" / "others").exists()
        shown = run("archive", "list", place, "--json")
        assert json.loads(shown.stdout)["partitions"][0]["end_offset"] >= held.end_offset
    assert "records of default/default/orders to" in node.log_file.read_text()


def test_only_what_matches_is_archived() -> None:
    settings = Settings(archive_location="/a", archive_streams="acme/*, *-eu")
    assert [wanted(settings, path) for path in ("acme/shop/orders", "x/y/z-eu", "x/y/z")] == [True, True, False]
    assert not wanted(Settings(archive_streams="*"), "acme/shop/orders")


def test_the_child_is_told_what_the_settings_say() -> None:
    settings = Settings(
        archive_location="s3a://b/a", data_dir="/d", archive_master="spark://m:7077", archive_token_file="/t"
    )
    command = ArchiveSchedule(settings, "flowmesh://127.0.0.1:1", "/d/admin.token", list).command(["a/b/c"])
    said = " ".join(command)
    assert "archive run a/b/c --each --json --to s3a://b/a --data-dir /d --url flowmesh://127.0.0.1:1" in said
    assert "--token-file /t --master spark://m:7077" in said
