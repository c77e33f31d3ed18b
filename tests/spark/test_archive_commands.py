"""`flowmesh archive` and `flowmesh verify --spark` as people and programs use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from flowmesh.assemble import read_local_log, sign_checkpoint
from flowmesh.client import connect_blocking
from flowmesh.format import checkpoint
from flowmesh.testing import NodeProcess
from tests.cli.running import call
from tests.spark.archives import manifest_of, written_log

pytestmark = pytest.mark.usefixtures("spark")


def said(*arguments: object) -> Any:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with written_log(tmp_path / "log"):
        pass
    return tmp_path / "log"


def test_a_log_is_archived_listed_and_verified(log: Path, tmp_path: Path) -> None:
    cold = tmp_path / "cold"
    done = call("archive", "run", log, "--to", cold)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("archived ")
    assert call("archive", "run", log, "--to", cold).stdout == "nothing to archive: no segment was closed since\n"
    rest = said("archive", "run", log, "--to", cold, "--include-open", "--piece-bytes", "1MiB")
    end = read_local_log(log).end_offset
    listed = said("archive", "list", cold, "--files")
    assert (listed["manifest"], listed["hash"]) == (2, rest["hash"])
    assert listed["partitions"][0]["end_offset"] == listed["partitions"][0]["records"] == end
    assert listed["partitions"][0]["files"] == [file.name for file in manifest_of(cold).files]
    text = call("archive", "list", cold, "--files").stdout
    assert manifest_of(cold).files[0].name in text
    report = said("verify", "--spark", log, "--archive", cold)
    assert (report["sound"], report["records"], report["cold"]["records"]) == (True, end, end)
    assert report["hot"][0]["damage"] == []


def test_damage_is_told_and_ends_with_one(log: Path, tmp_path: Path) -> None:
    cold = tmp_path / "cold"
    said("archive", "run", log, "--to", cold)
    kept = manifest_of(cold).hash
    assert call("archive", "verify", cold, "--manifest-hash", kept).exit_code == 0
    place = cold / manifest_of(cold).files[0].name
    data = bytearray(place.read_bytes())
    data[200] ^= 4
    place.write_bytes(data)
    for command in (["archive", "verify", cold], ["verify", "--spark", log, "--archive", cold]):
        result = call(*command)
        assert result.exit_code == 1
        assert f"damage: {place.name} was changed" in result.stdout
        assert "NOT SOUND" in result.stdout
    assert call("archive", "verify", cold, "--manifest-hash", "00" * 32).exit_code == 1


def test_a_checkpoint_is_compared_with_the_archive(log: Path, tmp_path: Path) -> None:
    cold, key = tmp_path / "cold", Ed25519PrivateKey.generate()
    said("archive", "run", log, "--to", cold, "--include-open")
    (tmp_path / "monday.json").write_bytes(checkpoint.encode(sign_checkpoint(read_local_log(log), key)))
    public = key.public_key().public_bytes_raw().hex()
    options = ["--checkpoint", tmp_path / "monday.json", "--public-key", public]
    assert said("verify", "--spark", log, "--archive", cold, *options)["checkpoint_fault"] is None
    with written_log(tmp_path / "other"):
        pass
    other = call("verify", "--spark", tmp_path / "other", *options)
    assert other.exit_code == 1
    assert "another chain" in other.stdout


def test_a_stream_of_a_node_is_archived_and_found_again(node: NodeProcess, tmp_path: Path) -> None:
    with connect_blocking(node.url, token=node.token) as client:
        handle = client.create_stream("commanded", partitions=2)
        for partition in (0, 1):
            handle.append_many([b"x"] * 300, partition=partition)
    (tmp_path / "token").write_text(node.token)
    where = ["--data-dir", node.data_dir, "--url", node.url, "--token-file", tmp_path / "token"]
    said("archive", "run", "commanded", "--to", tmp_path / "cold", "--each", "--include-open", *where)
    cold = tmp_path / "cold" / "default" / "default" / "commanded"
    assert [held.end_offset for held in manifest_of(cold).partitions] == [300, 300]
    group = said("group", "describe", "commanded", "archive", *where[2:])
    assert (group["kind"], group["location"], group["lag"]) == ("archive", str(cold), 0)
    report = said("verify", "--spark", "commanded", *where)
    assert (report["records"], report["cold"]["records"]) == (600, 600)


def test_what_cannot_be_is_said_clearly(log: Path, tmp_path: Path) -> None:
    cold = tmp_path / "cold"
    assert call("archive", "run", log, log, "--to", cold).exit_code == 2
    assert call("verify", log).exit_code == 2
    for arguments, why in (
        (["archive", "list", cold], "there is no archive at"),
        (["archive", "run", "no-such", "--to", cold, "--no-hold", "--data-dir", tmp_path], "there is no stream"),
        (["archive", "run", log, "--to", "nosuch://place/x"], "Spark has no file system for"),
        (["archive", "run", log, "--to", cold, "--piece-bytes", "1"], "it goes from"),
    ):
        result = call(*arguments)
        assert result.exit_code == 1
        assert why in result.output
    assert call("archive", "run", log, "--to", cold, "--conf", "nothing").exit_code == 2
