"""`log append`: what goes in, what is said of it, and what happens to input that cannot be taken."""

import json
import os
import signal
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path

import pytest

from flowmesh.assemble import open_local_log, read_local_log
from flowmesh.base.durability import Durability
from flowmesh.base.limits import MIB
from flowmesh.cli import lines
from flowmesh.format import names
from flowmesh.host.disk import RealDisk, RealFile
from tests.cli.running import append, call, numbers, records, run, start, wait_for_end


def test_ten_thousand_lines_through_pipes(tmp_path: Path) -> None:
    written = run("log", "append", tmp_path / "log", stdin=numbers(0, 10_000))
    assert written.returncode == 0, written.stderr
    assert written.stdout.decode() == (
        "10,000 records, offsets [0, 10000), durable: fsynced before they were acknowledged, by a group commit\n"
    )
    assert written.stderr == b""
    read = run("log", "read", tmp_path / "log")
    assert (read.returncode, read.stdout, read.stderr) == (0, numbers(0, 10_000), b"")


def test_offsets_go_on_where_the_last_run_ended(tmp_path: Path) -> None:
    append(tmp_path, stdin=b"a\nb\n")
    report = append(tmp_path, stdin=b"c\n")
    assert (report["records"], report["base_offset"], report["end_offset"]) == (1, 2, 3)


@pytest.mark.parametrize(
    "given, values",
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\n b \n", ["a\r", " b "]),
        (b"x" * 3_000_000 + b"\ny", ["x" * 3_000_000, "y"]),
    ],
    ids=["nothing", "an empty line", "no newline at the end", "bytes as they are", "a long line"],
)
def test_a_record_is_a_line_without_its_newline(given: bytes, values: list[str], tmp_path: Path) -> None:
    piped = run("log", "append", tmp_path / "log", stdin=given)
    assert piped.returncode == 0, piped.stderr
    assert [record["value"] for record in records(tmp_path / "log")] == values


@pytest.mark.parametrize("policy", ["always", "batch", "interval:50"])
def test_the_result_says_what_it_promises(policy: str, tmp_path: Path) -> None:
    report = append(tmp_path, "--durability", policy, "--batch-records", 10, stdin=numbers(0, 100))
    durability = Durability.parse(policy)
    assert (report["durability"], report["loss_window_ms"]) == (policy, durability.loss_window_ms)
    assert report["records"] == 100
    assert read_local_log(tmp_path).end_offset == 100
    text = call("log", "append", tmp_path, "--durability", policy, stdin=b"x\n").stdout
    assert ("50 ms" in text) == (policy == "interval:50")
    assert "fsynced" in text


def test_options_shape_the_log(tmp_path: Path) -> None:
    options = ("--segment-bytes", "64KiB", "--batch-records", "100", "--compression", "zstd", "--name", "my numbers")
    append(tmp_path, *options, stdin=b"".join(b"%0100d\n" % number for number in range(20_000)))
    view = read_local_log(tmp_path)
    assert view.chain.name == "my numbers"
    assert len(view.segments) > 2
    assert view.end_offset == 20_000
    assert {block.batch_header.count for block in view.blocks()} == {100}
    assert {block.batch_header.codec for block in view.blocks()} == {1}


def test_segments_close_by_records(tmp_path: Path) -> None:
    append(tmp_path, "--segment-records", 50, "--batch-records", 10, stdin=numbers(0, 200))
    assert [segment.base_offset for segment in read_local_log(tmp_path).segments] == [0, 50, 100, 150]


def test_segments_close_by_age(tmp_path: Path) -> None:
    for number in range(3):
        append(tmp_path, "--segment-age", "1ns", stdin=b"%d\n" % number)
    assert [segment.base_offset for segment in read_local_log(tmp_path).segments] == [0, 1, 2]


@pytest.mark.parametrize("option", [("--retention-bytes", "64KiB"), ("--retention-age", "1ns")])
def test_retention_trims_at_the_end(option: tuple[str, str], tmp_path: Path) -> None:
    shape = ("--segment-bytes", "64KiB", "--batch-records", "500")
    report = append(tmp_path, *shape, *option, stdin=numbers(0, 100_000))
    assert report["trimmed_segments"] > 0
    assert report["records"] == 100_000
    start_offset = read_local_log(tmp_path).start_offset
    assert start_offset > 0
    too_early = call("log", "read", tmp_path, "--from", 0)
    assert too_early.exit_code == 1
    assert f"[{start_offset}, 100000)" in too_early.stderr


def test_a_name_is_given_once(tmp_path: Path) -> None:
    append(tmp_path / "orders", stdin=b"a\n")
    assert read_local_log(tmp_path / "orders").chain.name == "orders"
    append(tmp_path / "orders", "--name", "orders", stdin=b"b\n")
    result = call("log", "append", tmp_path / "orders", "--name", "other", stdin=b"c\n")
    assert result.exit_code == 1
    assert "named 'orders'" in result.stderr
    assert len(records(tmp_path / "orders")) == 2


@pytest.mark.parametrize("stranger", ["letter.txt", "letter.tmp"])
def test_a_directory_of_something_else_is_left_alone(stranger: str, tmp_path: Path) -> None:
    (tmp_path / stranger).write_text("dear")
    result = call("log", "append", tmp_path, stdin=b"a\n")
    assert result.exit_code == 1
    assert stranger in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [stranger]


@pytest.mark.parametrize(
    "options, message",
    [
        (("--durability", "sometimes"), "Use 'always', 'batch' or 'interval:<ms>'"),
        (("--durability", "interval:0"), "Use 'always', 'batch' or 'interval:<ms>'"),
        (("--segment-bytes", "huge"), "64KiB, 256MiB, 2GiB"),
        (("--segment-bytes", "9999999TiB"), "too large"),
        (("--retention-age", "soon"), "90s, 15m, 36h or 7d"),
        (("--segment-age", "999999999999w"), "too long"),
        (("--compression", "lzw"), "'none', 'zstd'"),
        (("--batch-records", "0"), "range"),
    ],
)
def test_wrong_options_are_usage_errors(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    result = call("log", "append", tmp_path / "log", *options, stdin=b"a\n")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "log").exists()


def test_a_value_outside_its_limit_is_refused(tmp_path: Path) -> None:
    result = call("log", "append", tmp_path / "log", "--segment-bytes", "1KiB", stdin=b"a\n")
    assert result.exit_code == 1
    assert "segment_bytes is 1024; it goes from" in result.stderr


def test_one_process_appends_at_a_time(tmp_path: Path) -> None:
    log = open_local_log(tmp_path, create="held")
    try:
        second = run("log", "append", tmp_path, stdin=b"a\n")
    finally:
        log.close()
    assert second.returncode == 1
    assert b"is open in another process" in second.stderr
    assert b"Traceback" not in second.stderr


@pytest.mark.parametrize("batch_records", [1, 10, 100])
def test_a_bad_line_names_itself_and_what_was_kept(batch_records: int, tmp_path: Path) -> None:
    good, options = b'{"value":"v"}\n', ("--ndjson", "--json", "--batch-records", batch_records)
    result = call("log", "append", tmp_path, *options, stdin=good * 16 + b'\n{"value":1,"key":7}\n' + good)
    assert result.exit_code == 1
    assert "line 18, field 'key'" in result.stderr
    assert "16 records before that: appended and durable, offsets [0, 16)." in result.stderr
    assert len(records(tmp_path)) == 16
    report = json.loads(result.stdout)
    assert (report["records"], "line 18" in report["error"]) == (16, True)


def test_a_line_over_the_limit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", MIB)
    result = call("log", "append", tmp_path, stdin=b"a\nb\n" + b"x" * (3 * MIB))
    assert result.exit_code == 1
    assert f"line 3 is over the limit of {MIB} bytes" in result.stderr
    assert [record["value"] for record in records(tmp_path)] == ["a", "b"]


def test_a_torn_tail_is_cut_and_said_so(tmp_path: Path) -> None:
    append(tmp_path, stdin=b"a\n")
    with (tmp_path / names.segment_name(1)).open("ab") as file:
        file.write(b"torn")
    result = call("log", "append", tmp_path, stdin=b"b\n")
    assert result.exit_code == 0
    assert "recovery: entry past the durable end" in result.stderr
    assert [record["value"] for record in records(tmp_path)] == ["a", "b"]


def test_a_line_is_durable_soon_though_the_pipe_stays_open(tmp_path: Path) -> None:
    with start("log", "append", tmp_path / "log") as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"first\n")
        writer.stdin.flush()
        wait_for_end(tmp_path / "log", 1)
        writer.stdin.write(b"second\nand half a li")
        writer.stdin.flush()
        wait_for_end(tmp_path / "log", 2)
        writer.stdin.write(b"ne")
        writer.stdin.close()
        assert writer.wait(30) == 0
    assert [record["value"] for record in records(tmp_path / "log")] == ["first", "second", "and half a line"]


def test_ctrl_c_ends_the_input_and_loses_nothing(tmp_path: Path) -> None:
    with start("log", "append", tmp_path / "log") as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"a\nb\n")
        writer.stdin.flush()
        wait_for_end(tmp_path / "log", 2)
        writer.send_signal(signal.SIGINT)
        assert writer.wait(30) == 130  # while its input is still open
        out, err = writer.communicate()
    assert out.startswith(b"2 records, offsets [0, 2)")
    assert err == b""


def failing_after(times: int, error: OSError) -> Callable[[RealFile], None]:
    """An fsync that works so often, and then never again."""
    left = [times]

    def sync(file: RealFile) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise error
        os.fdatasync(file._descriptor)

    return sync


@pytest.mark.parametrize("policy", ["always", "batch"])
def test_a_failed_fsync_ends_it_with_what_is_durable(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path, stdin=b"a\n")
    monkeypatch.setattr(RealFile, "sync", failing_after(1, OSError(5, "Input/output error")))
    result = call(
        "log", "append", tmp_path, "--durability", policy, "--batch-records", 10, "--json", stdin=numbers(0, 200_000)
    )
    monkeypatch.undo()
    assert result.exit_code == 1
    assert "fsync failed" in result.stderr
    report = json.loads(result.stdout)
    assert f"offsets [1, {report['end_offset']})" in result.stderr
    kept = [record["value"] for record in records(tmp_path, "--limit", report["end_offset"])][1:]
    assert kept == [str(number) for number in range(report["records"])]
    assert 0 < report["records"] < 200_000


def test_a_full_disk_leaves_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Space that comes back in the middle must not let later records in behind ones that were refused."""
    answers = chain([2**40], [0], repeat(2**40))
    monkeypatch.setattr(RealDisk, "free_bytes", lambda _disk, _path: next(answers))
    result = call("log", "append", tmp_path, "--batch-records", 100, stdin=numbers(0, 200_000))
    assert result.exit_code == 1
    assert "bytes free" in result.stderr
    kept = read_local_log(tmp_path).end_offset
    assert f"offsets [0, {kept})" in result.stderr
    assert 0 < kept < 200_000
    assert call("log", "read", tmp_path).stdout.encode() == numbers(0, kept)
