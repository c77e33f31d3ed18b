"""What verify tells of a history in two tiers: every kind of damage and forgery, each by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from flowmesh.archive import manifest as manifests
from flowmesh.archive import names
from flowmesh.archive.manifest import Manifest
from flowmesh.assemble import read_local_log, sign_checkpoint
from flowmesh.format import checkpoint as checkpoint_format
from flowmesh.format.checkpoint import Checkpoint
from flowmesh.log.retention import Retention
from flowmesh.spark.archive.origin import log_origin
from flowmesh.spark.archive.verify import HistoryReport, verify_history
from tests.spark.archives import archive, fill, manifest_of, session, written_log

pytestmark = pytest.mark.usefixtures("spark")

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A log whose first part is archived, and only there; then a part in both; then one in the log alone."""
    with written_log(tmp_path / "log", 30) as log:
        archive(tmp_path / "log", tmp_path / "cold")
        log.trim(Retention(size_bytes=80_000))
        fill(log, 30)
        archive(tmp_path / "log", tmp_path / "cold")
        assert 0 < log.view.start_offset < manifest_of(tmp_path / "cold").partitions[0].end_offset
    return tmp_path


def verified(history: Path, **options: Any) -> HistoryReport:
    return verify_history(session(), log_origin(history / "log"), str(history / "cold"), **options)


def forge(history: Path, **fields: Any) -> None:
    """A manifest with other fields in its one partition, hashed as if nothing had happened."""
    manifest = manifest_of(history / "cold")
    partition = msgspec.structs.replace(manifest.partitions[0], **fields)
    put(history, msgspec.structs.replace(manifest, partitions=(partition,)))


def put(history: Path, manifest: Manifest) -> None:
    (history / "cold" / names.manifest_name(manifest.number)).write_bytes(manifests.encode(manifest))


def flip(place: Path, part: float = 0.5) -> None:
    data = bytearray(place.read_bytes())
    data[int(len(data) * part)] ^= 1
    place.write_bytes(data)


def test_a_sound_history_is_counted_once(history: Path) -> None:
    report = verified(history)
    assert report.sound
    assert report.records == read_local_log(history / "log").end_offset
    assert report.cold is not None
    assert report.cold.records == manifest_of(history / "cold").partitions[0].end_offset
    assert report.cold.notes == ()


def test_a_flipped_bit_in_any_tier_is_found(history: Path) -> None:
    for place in (history / "cold" / manifest_of(history / "cold").files[1].name, _segment(history, 0)):
        before = place.read_bytes()
        flip(place)
        assert not verified(history).sound
        place.write_bytes(before)
    manifest = history / "cold" / names.manifest_name(2)
    flip(manifest)
    report = verified(history)
    assert report.cold is not None
    assert any("damaged" in fault for fault in report.cold.faults)


def _segment(history: Path, row: int) -> Path:
    return sorted((history / "log").glob("segment-*.log"))[row]


def test_a_missing_file_and_a_stray_one_are_told_apart(history: Path) -> None:
    file = history / "cold" / manifest_of(history / "cold").files[0].name
    data = file.read_bytes()
    file.unlink()
    stray = history / "cold" / names.data_name(bytes(32), 0, 0, 9)
    stray.write_bytes(data)
    cold = verified(history).cold
    assert cold is not None
    assert [fault for fault in cold.faults if "is missing" in fault]
    assert [note for note in cold.notes if stray.name in note]


def test_a_replaced_file_is_found_though_the_manifest_was_made_to_fit(history: Path) -> None:
    """The file of an offset range, swapped with other rows and hashed anew: its rows say that it is another one."""
    manifest = manifest_of(history / "cold")
    one, two = manifest.files[:2]
    data = (history / "cold" / two.name).read_bytes()
    (history / "cold" / one.name).write_bytes(data)
    forged = msgspec.structs.replace(one, size_bytes=two.size_bytes, sha256=two.sha256)
    forge(history, files=(forged, *manifest.partitions[0].files[1:]))
    cold = verified(history).cold
    assert cold is not None
    assert any("holds" in fault and one.name in fault for fault in cold.faults)


def test_a_forged_chain_does_not_join_the_log(history: Path) -> None:
    segments = manifest_of(history / "cold").partitions[0].segments
    forge(history, segments=(msgspec.structs.replace(segments[0], last_block_hash="ab" * 32), *segments[1:]))
    report = verified(history)
    assert report.cold is not None
    assert any("not linked" in fault for fault in report.cold.faults)


def test_a_gap_between_the_tiers_is_named(history: Path) -> None:
    partition = manifest_of(history / "cold").partitions[0]
    start = read_local_log(history / "log").start_offset
    kept = [segment for segment in partition.segments if segment.end_offset < start]
    end = kept[-1].end_offset
    forge(history, segments=tuple(kept), files=tuple(file for file in partition.files if file.end_offset <= end))
    assert any(f"[{end}, {start}) are in neither" in fault for fault in verified(history).joints)


def test_the_hash_of_a_manifest_that_was_kept_must_be_known(history: Path) -> None:
    kept = manifest_of(history / "cold").hash
    assert verified(history, known_hash=kept).sound
    assert verified(history, known_hash=manifest_of(history / "cold").previous).sound
    assert not verified(history, known_hash="ab" * 32).sound
    first = manifests.decode((history / "cold" / names.manifest_name(1)).read_bytes())
    put(history, msgspec.structs.replace(first, created_ns=1))
    cold = verified(history).cold
    assert cold is not None
    assert any("forged" in fault for fault in cold.faults)


def test_a_signed_checkpoint_is_asked_of_the_tier_that_has_it(history: Path) -> None:
    held = manifest_of(history / "cold").partitions[0]
    first = held.segments[0]
    assert first.end_offset < read_local_log(history / "log").start_offset

    def signed(offset: int, block_hash: str) -> Checkpoint:
        return checkpoint_format.sign(KEY, held.chain.hash, offset, bytes.fromhex(block_hash), 1)

    assert verified(history, checkpoint=signed(first.end_offset, first.last_block_hash)).sound
    assert verified(history, checkpoint=sign_checkpoint(read_local_log(history / "log"), KEY)).sound
    fault = verified(history, checkpoint=signed(first.end_offset, "ab" * 32)).checkpoint_fault
    assert fault is not None
    assert "rewritten" in fault
    between = verified(history, checkpoint=signed(first.end_offset - 1, "ab" * 32)).checkpoint_fault
    assert between is not None
    assert "cannot be compared" in between


def test_files_that_only_spark_reaches_are_checked_too(tmp_path: Path) -> None:
    (tmp_path / "cold").mkdir()
    configuration = session()._jsc.hadoopConfiguration()
    configuration.set("fs.viewfs.mounttable.mesh.link./checked", f"file://{tmp_path}/cold")
    configuration.set("fs.viewfs.impl.disable.cache", "true")
    with written_log(tmp_path / "log"):
        archive(tmp_path / "log", "viewfs://mesh/checked/x")
    report = verify_history(session(), None, "viewfs://mesh/checked/x")
    assert report.sound
    assert report.records > 0
    names_found = [file.name for file in manifest_of(tmp_path / "cold" / "x").files]
    (tmp_path / "cold" / "x" / f".{names_found[0]}.crc").unlink()  # Hadoop's own checksum would find it first
    flip(tmp_path / "cold" / "x" / names_found[0])
    damaged = verify_history(session(), None, "viewfs://mesh/checked/x")
    assert damaged.cold is not None
    assert [fault for fault in damaged.cold.faults if "was changed" in fault]
