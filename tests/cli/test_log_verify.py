"""`log verify` and `log checkpoint`: sound logs, rot, and histories that were rewritten."""

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from flowmesh.format import names
from tests.cli.running import append, call, flip, numbers, run

SMALL = ("--segment-bytes", "64KiB", "--batch-records", "100")


def report_of(*arguments: object) -> tuple[int, dict[str, Any]]:
    result = call("log", "verify", "--json", *arguments)
    return result.exit_code, json.loads(result.stdout)


def signed(directory: Path, place: Path, name: str = "checkpoint.json") -> Path:
    result = call("log", "checkpoint", directory, "--key", place / "key.pem", "--out", place / name)
    assert result.exit_code == 0, result.output
    return place / name


def test_a_sound_log(tmp_path: Path) -> None:
    append(tmp_path, *SMALL, stdin=numbers(0, 30_000))
    done = run("log", "verify", tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"\nsound\n")
    code, report = report_of(tmp_path)
    assert (code, report["sound"], report["records"], report["blocks"]) == (0, True, 30_000, 300)
    assert (report["start_offset"], report["end_offset"]) == (0, 30_000)
    assert report["bytes"] == sum(path.stat().st_size for path in tmp_path.glob("segment-*.log"))


@pytest.mark.parametrize("place", [0.01, 0.3, 0.5, 0.999])
def test_a_flipped_byte_is_found_and_its_range_named(place: float, tmp_path: Path) -> None:
    append(tmp_path, *SMALL, stdin=numbers(0, 30_000))
    position = flip(tmp_path / names.segment_name(1), place)
    done = run("log", "verify", tmp_path)
    assert done.returncode == 1
    assert b"damage: segment-000001.log bytes [" in done.stdout
    assert done.stdout.endswith(b"NOT SOUND: 1 damaged range\n")
    code, report = report_of(tmp_path)
    (damage,) = report["damage"]
    assert code == 1
    assert damage["position"] <= position < damage["end_position"]
    assert damage["end_offset"] - damage["first_offset"] == 100


def test_a_lost_segment_is_found(tmp_path: Path) -> None:
    append(tmp_path, *SMALL, stdin=numbers(0, 30_000))
    (tmp_path / names.segment_name(2)).unlink()
    code, report = report_of(tmp_path)
    assert code == 1
    assert [(damage["segment"], damage["why"]) for damage in report["damage"]] == [(2, "missing")]


def test_a_checkpoint_still_holds_after_more_appends(tmp_path: Path) -> None:
    append(tmp_path / "log", stdin=numbers(0, 1000))
    checkpoint = signed(tmp_path / "log", tmp_path)
    append(tmp_path / "log", stdin=numbers(0, 1000))
    code, report = report_of(tmp_path / "log", "--checkpoint", checkpoint)
    assert code == 0
    assert report["checkpoint"]["holds"]
    assert report["checkpoint"]["end_offset"] == 1000
    text = call("log", "verify", tmp_path / "log", "--checkpoint", checkpoint)
    assert "nothing before offset 1000 changed" in text.stdout
    assert "Is that your key?" in text.stderr


def test_a_checkpoint_vouches_for_no_more_than_is_left(tmp_path: Path) -> None:
    append(tmp_path / "log", *SMALL, stdin=numbers(0, 30_000))
    checkpoint = signed(tmp_path / "log", tmp_path)
    append(tmp_path / "log", *SMALL, "--retention-bytes", "64KiB", stdin=b"more\n")
    start = report_of(tmp_path / "log")[1]["start_offset"]
    assert start > 0
    text = call("log", "verify", tmp_path / "log", "--checkpoint", checkpoint)
    assert f"nothing in offsets [{start}, 30000) changed" in text.stdout


def test_a_checkpoint_catches_a_rewritten_history(tmp_path: Path) -> None:
    append(tmp_path / "log", stdin=numbers(0, 1000))
    checkpoint = signed(tmp_path / "log", tmp_path)
    (tmp_path / "forged").mkdir()
    shutil.copy(tmp_path / "log" / names.CHAIN, tmp_path / "forged")
    append(tmp_path / "forged", stdin=numbers(0, 1000).replace(b"\n500\n", b"\n600\n"))
    assert report_of(tmp_path / "forged")[0] == 0
    code, report = report_of(tmp_path / "forged", "--checkpoint", checkpoint)
    assert code == 1
    assert "history was rewritten" in report["checkpoint"]["fault"]
    text = call("log", "verify", tmp_path / "forged", "--checkpoint", checkpoint).stdout
    assert text.endswith("NOT SOUND: the checkpoint does not hold\n")


def test_a_checkpoint_of_another_log_does_not_hold(tmp_path: Path) -> None:
    append(tmp_path / "log", stdin=b"a\n")
    append(tmp_path / "other", stdin=b"a\n")
    code, report = report_of(tmp_path / "other", "--checkpoint", signed(tmp_path / "log", tmp_path))
    assert code == 1
    assert "another chain" in report["checkpoint"]["fault"]


def test_the_key_that_must_have_signed_is_checked(tmp_path: Path) -> None:
    append(tmp_path / "log", stdin=b"a\n")
    checkpoint = signed(tmp_path / "log", tmp_path)
    right = json.loads(checkpoint.read_text())["public_key"]
    command = ("log", "verify", tmp_path / "log", "--checkpoint", checkpoint, "--public-key")
    trusted = call(*command, right)
    assert (trusted.exit_code, trusted.stderr) == (0, "")
    wrong = call(*command, "00" * 32)
    assert wrong.exit_code == 1
    assert "another key" in wrong.stderr
    assert call(*command, "beef").exit_code == 2
    assert call("log", "verify", tmp_path / "log", "--public-key", right).exit_code == 2


@pytest.mark.parametrize("content", [b"", b"{}", b"x" * 100_000, b'{"format":"flowmesh.checkpoint","version":9}'])
def test_a_file_that_is_no_checkpoint_is_refused(content: bytes, tmp_path: Path) -> None:
    append(tmp_path / "log", stdin=b"a\n")
    (tmp_path / "bad.json").write_bytes(content)
    result = call("log", "verify", tmp_path / "log", "--checkpoint", tmp_path / "bad.json")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    append(tmp_path / "log", stdin=b"a\n")
    key = tmp_path / "key.pem"
    first = run("log", "checkpoint", tmp_path / "log", "--key", key)
    assert first.returncode == 0, first.stderr
    assert b"Made a new key in" in first.stderr
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    checkpoint = json.loads(first.stdout)
    assert checkpoint["end_offset"] == 1
    assert checkpoint["public_key"].encode() in first.stderr
    second = run("log", "checkpoint", tmp_path / "log", "--key", key)
    assert b"Made a new key" not in second.stderr
    assert json.loads(second.stdout)["public_key"] == checkpoint["public_key"]


def test_an_older_checkpoint_is_not_overwritten(tmp_path: Path) -> None:
    append(tmp_path / "log", stdin=b"a\n")
    before = signed(tmp_path / "log", tmp_path).read_bytes()
    again = call(
        "log", "checkpoint", tmp_path / "log", "--key", tmp_path / "key.pem", "--out", tmp_path / "checkpoint.json"
    )
    assert again.exit_code == 1
    assert "is not overwritten" in again.stderr
    assert (tmp_path / "checkpoint.json").read_bytes() == before


def test_a_file_that_is_no_key_is_refused(tmp_path: Path) -> None:
    append(tmp_path / "log", stdin=b"a\n")
    (tmp_path / "key.pem").write_text("my secret")
    result = call("log", "checkpoint", tmp_path / "log", "--key", tmp_path / "key.pem")
    assert result.exit_code == 1
    assert "holds no private key" in result.stderr


def test_the_checkpoint_of_an_empty_log_holds_later(tmp_path: Path) -> None:
    append(tmp_path / "log", stdin=b"")
    checkpoint = signed(tmp_path / "log", tmp_path)
    append(tmp_path / "log", stdin=b"a\n")
    assert report_of(tmp_path / "log", "--checkpoint", checkpoint)[0] == 0
