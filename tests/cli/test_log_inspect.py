"""`log inspect`: chain, segments, blocks and damage, in words and in JSON."""

import json
from pathlib import Path

from flowmesh.assemble import open_local_log, read_local_log
from flowmesh.format import columns, names
from flowmesh.format.batch import Producer
from tests.cli.running import append, call, flip, numbers

SMALL = ("--segment-bytes", "64KiB", "--batch-records", "100", "--name", "numbers")


def test_the_document_says_what_the_log_is_made_of(tmp_path: Path) -> None:
    append(tmp_path, *SMALL, stdin=numbers(0, 30_000))
    view = read_local_log(tmp_path)
    document = json.loads(call("log", "inspect", tmp_path, "--json").stdout)
    assert document["chain"]["name"] == "numbers"
    assert document["chain"]["hash"] == view.chain.hash.hex()
    assert (document["start_offset"], document["end_offset"], document["bytes_past_durable_end"]) == (0, 30_000, 0)
    assert (document["damage"], document["notes"]) == ([], [])
    for segment, row in zip(view.segments, document["segments"], strict=True):
        path = tmp_path / names.segment_name(segment.number)
        assert row["file"] == path.name
        assert row["bytes"] == path.stat().st_size
        assert (row["base_offset"], row["end_offset"]) == (segment.base_offset, segment.end_offset)
        assert row["records"] == 100 * row["blocks"] == row["end_offset"] - row["base_offset"]
        assert row["hash"].startswith(row["id"])


def test_the_text_has_a_row_for_each_segment(tmp_path: Path) -> None:
    append(tmp_path, *SMALL, stdin=numbers(0, 30_000))
    text = call("log", "inspect", tmp_path).stdout
    for segment in read_local_log(tmp_path).segments:
        assert f"[{segment.base_offset}, {segment.end_offset})" in text
        assert segment.header.hash[:8].hex() in text
    assert "chain    numbers" in text


def test_blocks_are_listed_of_one_segment_or_all(tmp_path: Path) -> None:
    append(tmp_path, *SMALL, "--compression", "zstd", stdin=numbers(0, 50_000))
    blocks = list(read_local_log(tmp_path).blocks())
    rows = [json.loads(line) for line in call("log", "inspect", tmp_path, "--blocks", "--json").stdout.splitlines()]
    assert [row["id"] for row in rows] == [block.id for block in blocks]
    assert {(row["kind"], row["codec"], row["producer_id"]) for row in rows} == {("records", "zstd", None)}
    text = call("log", "inspect", tmp_path, "--blocks", "--segment", 1).stdout
    shown = [block.id for block in blocks if block.id in text]
    assert shown == [
        block.id for block in blocks if block.base_offset < read_local_log(tmp_path).segments[0].end_offset
    ]


def test_a_producer_is_shown(tmp_path: Path) -> None:
    log = open_local_log(tmp_path, create="log")
    log.write([columns.encode([b"a"], producer=Producer(7, 2, 40))])
    log.close()
    assert "7/2/40" in call("log", "inspect", tmp_path, "--blocks").stdout
    row = json.loads(call("log", "inspect", tmp_path, "--blocks", "--json").stdout)
    assert (row["producer_id"], row["producer_epoch"], row["first_sequence"]) == (7, 2, 40)


def test_damage_is_listed_among_the_blocks(tmp_path: Path) -> None:
    append(tmp_path, *SMALL, stdin=numbers(0, 1000))
    flip(tmp_path / names.segment_name(1))
    assert "damage: segment-000001.log bytes [" in call("log", "inspect", tmp_path, "--blocks").stdout
    lines = call("log", "inspect", tmp_path, "--blocks", "--json").stdout.splitlines()
    (damage,) = [json.loads(line)["damage"] for line in lines if "damage" in line]
    assert damage["why"] == "failing its checksum"


def test_what_opening_would_put_right_is_noted_and_nothing_is_changed(tmp_path: Path) -> None:
    append(tmp_path, *SMALL, stdin=numbers(0, 30_000))
    (tmp_path / names.index_name(1)).unlink()
    with (tmp_path / names.segment_name(len(read_local_log(tmp_path).segments))).open("ab") as file:
        file.write(b"torn")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    text = call("log", "inspect", tmp_path).stdout
    assert "note: index is missing (segment-000001.idx): rebuild" in text
    assert "4 bytes past the durable end" in text
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_lost_segment_is_damage(tmp_path: Path) -> None:
    append(tmp_path, *SMALL, stdin=numbers(0, 30_000))
    (tmp_path / names.segment_name(1)).unlink()
    document = json.loads(call("log", "inspect", tmp_path, "--json").stdout)
    assert [(row["segment"], row["first_offset"], row["why"]) for row in document["damage"]] == [(1, 0, "missing")]


def test_a_segment_that_is_not_there_is_refused(tmp_path: Path) -> None:
    append(tmp_path, stdin=b"a\n")
    result = call("log", "inspect", tmp_path, "--segment", 9)
    assert result.exit_code == 1
    assert "no segment 9" in result.stderr
