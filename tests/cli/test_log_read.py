"""`log read`: where it begins and ends, how records are shown, and what damage, trims and other writers do to it."""

import json
import select
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from flowmesh.assemble import open_local_log, read_local_log, start_writer
from flowmesh.base.times import to_text
from flowmesh.cli import reading
from flowmesh.cli.parameters import Start
from flowmesh.cli.reading import Reading
from flowmesh.format import columns, names
from flowmesh.format.batch import BatchKind, foreign
from flowmesh.log.retention import Retention
from tests.cli.running import append, call, flip, numbers, records, start, wait_for_end

SMALL = ("--segment-bytes", "64KiB", "--batch-records", "100")


def values(*arguments: object) -> list[str]:
    result = call("log", "read", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_from_an_offset_inside_a_batch_with_a_limit(tmp_path: Path) -> None:
    append(tmp_path, *SMALL, stdin=numbers(0, 1000))
    assert values(tmp_path, "--from", 250, "--limit", 3) == ["250", "251", "252"]
    assert values(tmp_path, "--from", 299, "--limit", 102) == [str(number) for number in range(299, 401)]
    assert values(tmp_path, "--from", 998) == ["998", "999"]
    assert values(tmp_path, "--from", 1000) == values(tmp_path, "--from", "latest") == []
    assert values(tmp_path, "--limit", 0) == []
    assert len(values(tmp_path, "--from", "earliest")) == 1000


def test_from_a_time(tmp_path: Path) -> None:
    day = 86_400 * 10**9
    lines = [json.dumps({"value": str(number), "time": number * day}) for number in range(100)]
    append(tmp_path, "--ndjson", "--batch-records", 7, stdin="\n".join(lines))
    assert values(tmp_path, "--from", to_text(50 * day), "--limit", 1) == ["50"]
    assert values(tmp_path, "--from", "1970-02-20T00:00:01", "--limit", 1) == ["51"]
    assert values(tmp_path, "--from", "2100-01-01") == []


@pytest.mark.parametrize("place", ["yesterday", "-1", "1.5", "", "99999999999999999999999"])
def test_no_place_is_wrong_usage(place: str, tmp_path: Path) -> None:
    append(tmp_path, stdin=b"a\n")
    assert call("log", "read", tmp_path, f"--from={place}").exit_code == 2


def test_an_offset_past_the_end_is_refused_with_what_there_is(tmp_path: Path) -> None:
    append(tmp_path, stdin=b"a\n")
    result = call("log", "read", tmp_path, "--from", 5)
    assert result.exit_code == 1
    assert "[0, 1)" in result.stderr


def test_verbose_puts_offset_time_and_key_before_the_value(tmp_path: Path) -> None:
    append(tmp_path, "--ndjson", stdin=b'{"value":"a","key":"k","time":0}\n{"value":"b\\tc","time":1,"key":"x\\ty"}\n')
    append(tmp_path, "--ndjson", stdin=b'{"value":null,"time":2}\n')
    assert values(tmp_path, "--verbose") == [
        "0\t1970-01-01T00:00:00.000000000Z\tk\ta",
        "1\t1970-01-01T00:00:00.000000001Z\tx\\ty\tb\tc",
        "2\t1970-01-01T00:00:00.000000002Z\t-\t",
    ]
    assert call("log", "read", tmp_path, "--verbose", "--json").exit_code == 2


def test_batches_that_are_no_records_are_named_and_not_shown(tmp_path: Path) -> None:
    log = open_local_log(tmp_path, create="mixed")
    writer = start_writer()
    kinds = [columns.encode([b"a"]), foreign(b"opaque", 3), columns.encode([b"c"], kind=BatchKind.CONTROL)]
    writer.append(log, [*kinds, columns.encode([b"b"])]).result()
    writer.close()
    log.close()
    result = call("log", "read", tmp_path)
    assert result.stdout.splitlines() == ["a", "b"]
    assert "offsets [1, 4) hold a foreign batch" in result.stderr
    assert "offsets [4, 5) hold a control batch" in result.stderr


# --- damage -------------------------------------------------------------------------------------------------------


def test_reading_stops_in_front_of_damage_and_names_it(tmp_path: Path) -> None:
    append(tmp_path, *SMALL, stdin=numbers(0, 30_000))
    flip(tmp_path / names.segment_name(1))
    stopped = call("log", "read", tmp_path)
    assert stopped.exit_code == 1
    assert "segment 1, bytes [" in stopped.stderr
    assert "--skip-damaged" in stopped.stderr
    got = stopped.stdout.splitlines()
    assert got == [str(number) for number in range(len(got))]
    assert 0 < len(got) < 30_000
    assert f"offsets [{len(got)}, {len(got) + 100}) cannot be served" in stopped.stderr


def test_damage_is_skipped_on_request_and_still_fails(tmp_path: Path) -> None:
    append(tmp_path, *SMALL, stdin=numbers(0, 30_000))
    assert len(read_local_log(tmp_path).segments) > 2
    flip(tmp_path / names.segment_name(1))
    flip(tmp_path / names.segment_name(2))
    result = call("log", "read", tmp_path, "--skip-damaged")
    assert result.exit_code == 1
    assert result.stderr.count("skipped: segment") == 2
    assert "2 damaged ranges were skipped" in result.stderr
    got = [int(line) for line in result.stdout.splitlines()]
    assert got == sorted(got)
    assert len(got) == 29_800


def test_a_lost_segment_is_skipped_as_a_whole(tmp_path: Path) -> None:
    append(tmp_path, *SMALL, stdin=numbers(0, 30_000))
    first, lost, *_ = read_local_log(tmp_path).segments
    (tmp_path / names.segment_name(2)).unlink()
    assert call("log", "read", tmp_path).exit_code == 1
    result = call("log", "read", tmp_path, "--skip-damaged")
    assert result.exit_code == 1
    expected = [*range(first.end_offset), *range(lost.end_offset, 30_000)]
    assert [int(line) for line in result.stdout.splitlines()] == expected


def test_a_lost_end_is_not_taken_for_the_end(tmp_path: Path) -> None:
    append(tmp_path, *SMALL, stdin=numbers(0, 30_000))
    *_, last = read_local_log(tmp_path).segments
    path = tmp_path / names.segment_name(last.number)
    path.write_bytes(path.read_bytes()[:-1])
    (tmp_path / names.index_name(last.number)).unlink()
    stopped = call("log", "read", tmp_path)
    assert stopped.exit_code == 1
    assert "cut short" in stopped.stderr
    assert len(stopped.stdout.splitlines()) == 29_900
    assert call("log", "read", tmp_path, "--skip-damaged").exit_code == 1


# --- beside other processes -----------------------------------------------------------------------------------------


def test_follow_shows_what_another_process_appends(tmp_path: Path) -> None:
    append(tmp_path, stdin=b"0\n")
    with (
        start("log", "read", tmp_path, "--follow", "--limit", 4, "--json") as reader,
        start("log", "append", tmp_path) as writer,
    ):
        assert writer.stdin is not None
        assert reader.stdout is not None
        seen = [json.loads(reader.stdout.readline())]
        for number in range(1, 4):
            writer.stdin.write(b"%d\n" % number)
            writer.stdin.flush()
            seen.append(json.loads(reader.stdout.readline()))
        writer.stdin.close()
        assert reader.wait(30) == writer.wait(30) == 0
    assert [(record["offset"], record["value"]) for record in seen] == [(0, "0"), (1, "1"), (2, "2"), (3, "3")]


def test_follow_from_latest_ends_quietly_with_ctrl_c(tmp_path: Path) -> None:
    append(tmp_path, stdin=b"old\n")
    with start("log", "read", tmp_path, "--from", "latest", "--follow") as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        # Only what comes after its first look is new to it, so lines come until one was seen.
        deadline = time.monotonic() + 30
        with start("log", "append", tmp_path) as writer:
            assert writer.stdin is not None
            while not select.select([reader.stdout], [], [], 0.1)[0] and time.monotonic() < deadline:
                writer.stdin.write(b"new\n")
                writer.stdin.flush()
            writer.stdin.close()
            assert writer.wait(30) == 0
        assert reader.stdout.readline() == b"new\n"
        reader.send_signal(signal.SIGINT)
        assert reader.wait(30) == 130
        assert reader.stderr.read() == b""


def test_a_follower_survives_a_trim_and_says_what_it_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "POLL_S", 0.001)
    append(tmp_path, *SMALL, stdin=numbers(0, 30_000))
    told: list[str] = []
    follower = Reading(tmp_path, Start("earliest"), follow=True, skip_damaged=False, tell=told.append)
    walk = follower.columns()
    first, batch = next(walk)
    assert (first, batch.base_offset) == (0, 0)
    log = open_local_log(tmp_path)
    log.trim(Retention(size_bytes=64 * 1024))
    log.close()
    start_offset = read_local_log(tmp_path).start_offset
    assert start_offset > 0
    offsets = [batch.base_offset]
    while offsets[-1] < 29_900:
        offsets.append(next(walk)[1].base_offset)
    assert offsets == sorted(set(offsets))
    # What was open may still be read; between that and the new start there is one gap, and it is named.
    gaps = [(before + 100, after) for before, after in pairwise(offsets) if after != before + 100]
    assert gaps == [(gaps[0][0], start_offset)]
    assert told == [
        f"offsets [{gaps[0][0]}, {start_offset}) were trimmed away before they were read; going on at {start_offset}."
    ]


def test_a_follower_notices_that_the_log_was_replaced(tmp_path: Path) -> None:
    append(tmp_path / "log", stdin=b"a\n")
    with start("log", "read", tmp_path / "log", "--follow") as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"a\n"
        append(tmp_path / "other", stdin=b"x\ny\nz\n")
        (tmp_path / "log").rename(tmp_path / "gone")
        (tmp_path / "other").rename(tmp_path / "log")
        _, err = follower.communicate(timeout=30)
    assert follower.returncode == 1
    assert b"was replaced" in err or b"no directory" in err or b"no log" in err


def test_what_is_not_yet_durable_is_not_shown(tmp_path: Path) -> None:
    log = open_local_log(tmp_path, create="log")
    log.write([columns.encode([b"a"])])
    log.sync()
    log.write([columns.encode([b"b"])])
    try:
        assert [record["value"] for record in records(tmp_path)] == ["a"]
        log.sync()
        wait_for_end(tmp_path, 2)
        assert [record["value"] for record in records(tmp_path)] == ["a", "b"]
    finally:
        log.close()
