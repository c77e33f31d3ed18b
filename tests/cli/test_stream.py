"""`flowmesh stream …` against a real node: what goes in comes out, and what is wrong is said in one line."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import COMMAND, TIMEOUT_S, append, call, numbers
from tests.serve.nodes import Served

pytestmark = pytest.mark.usefixtures("node")


def ok(*arguments: object, stdin: bytes | str = b"") -> str:
    result = call("stream", *arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def told(*arguments: object, stdin: bytes | str = b"") -> Any:
    return json.loads(ok(*arguments, "--json", stdin=stdin))


def refusal(*arguments: object, stdin: bytes | str = b"") -> str:
    result = call("stream", *arguments, stdin=stdin)
    assert result.exit_code == 1, result.output
    return result.stderr


def test_a_stream_lives_from_create_to_delete() -> None:
    made = told("create", "life", "--partitions", 3, "--retention-age", "30d", "--durability", "always")
    assert (len(made["partitions"]), made["retention_age_ms"]) == (3, 30 * 86_400_000)
    assert "life" in told("list")["streams"]
    assert told("describe", "default/default/life") == told("describe", "life")
    altered = told("alter", "life", "--retention-age", "none", "--retention-bytes", "1GiB")
    assert (altered["retention_age_ms"], altered["retention_bytes"], altered["durability"]) == (None, 1 << 30, "always")
    assert "deleted" in ok("delete", "life", "--yes")
    assert "there is no stream 'default/default/life'" in refusal("describe", "life")


def test_a_table_shows_partitions() -> None:
    ok("create", "table", "--partitions", 2)
    lines = ok("describe", "table").splitlines()
    assert lines[0].startswith("stream default/default/table, id ")
    assert lines[-1].split() == ["1", "[0,", "0)", "0", lines[-1].split()[4], "1", "sound"]


def test_lines_come_out_as_they_went_in() -> None:
    ok("create", "lines")
    said = ok("append", "lines", stdin=numbers(0, 10_000))
    assert said == "10,000 records, durable: fsynced before they were acknowledged (batch)\n"
    assert ok("read", "lines").encode() == numbers(0, 10_000)
    assert ok("read", "lines", "--from", 9_998) == "9998\n9999\n"
    assert ok("read", "lines", "--from", "latest") == ok("read", "lines", "--from", 10_000) == ""
    assert "offset 10001 is outside this log" in refusal("read", "lines", "--from", 10_001)
    assert ok("read", "lines", "--limit", 2) == "0\n1\n"
    assert ok("read", "lines", "--limit", 0) == ""
    assert ok("read", "lines", "--from", "2020-01-01", "--limit", 1) == "0\n"


def test_ndjson_goes_in_and_out_and_on_into_a_log(tmp_path: Path) -> None:
    ok("create", "rich", "--partitions", 4)
    lines = [
        {"key": "a", "value": {"n": 1}, "headers": {"h": "v"}, "time": "2026-01-01T00:00:00Z"},
        {"key": "a", "value": None},
        {"key": "a", "value": {"base64": "/w=="}},
    ]
    assert told("append", "rich", "--ndjson", stdin="\n".join(map(json.dumps, lines)))["records"] == 3
    out = ok("read", "rich", "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert [record["value"] for record in found] == ['{"n":1}', None, {"base64": "/w=="}]
    assert [record["offset"] for record in found] == [0, 1, 2], "one key, one partition"
    assert found[0]["headers"] == {"h": "v"}
    assert append(tmp_path / "log", "--ndjson", stdin=out)["records"] == 3


def test_what_was_read_over_http_can_be_appended(node: Served) -> None:
    ok("create", "origin", "--partitions", 2)
    ok("append", "origin", "--partition", 1, stdin="a\nb\n")
    assert [json.loads(line)["partition"] for line in ok("read", "origin", "--json").splitlines()] == [1, 1]
    connection = node.connection()
    headers = {"authorization": f"Bearer {node.token}", "accept": "application/x-ndjson"}
    connection.request("GET", "/v1/default/default/streams/origin/records?partition=1", headers=headers)
    lines = connection.getresponse().read()
    connection.close()
    assert told("append", "origin", "--ndjson", "--partition", 0, stdin=lines)["records"] == 2
    assert ok("read", "origin", "--partition", 0) == "a\nb\n"


def test_how_a_stream_is_kept_is_told_as_it_is_asked_for() -> None:
    ok("create", "kept", "--retention-age", "36h", "--segment-age", "90s")
    said = ok("alter", "kept", "--retention-bytes", "1GiB")
    assert all(words in said for words in ("retention age  36h\n", "segment age    90s\n", "retention size 1.0 GiB\n"))


def test_a_line_that_cannot_be_taken_is_named_and_what_came_before_is_kept() -> None:
    ok("create", "half")
    said = refusal("append", "half", "--ndjson", stdin='{"value":1}\n{"value":2}\nnonsense\n{"value":3}\n')
    assert "line 3: not JSON" in said
    assert "2 records before that: appended" in said
    assert ok("read", "half") == "1\n2\n"


def test_an_interval_stream_says_what_a_power_cut_may_take() -> None:
    ok("create", "loose", "--durability", "interval:200")
    assert "may take the last 200 ms" in ok("append", "loose", stdin="x\n")


def test_partitions_are_read_alone_and_together() -> None:
    ok("create", "parts", "--partitions", 2)
    for partition in (0, 1):
        ok("append", "parts", "--partition", partition, stdin=f"in {partition}\n")
    assert ok("read", "parts", "--partition", 1) == "in 1\n"
    assert sorted(ok("read", "parts").splitlines()) == ["in 0", "in 1"]
    assert "partitions 0 to 1" in refusal("append", "parts", "--partition", 7, stdin="x\n")


def test_a_tail_prints_what_comes_and_ends_with_ctrl_c() -> None:
    ok("create", "tailed")
    ok("append", "tailed", stdin="before\n")
    command = [*COMMAND, "stream", "read", "tailed", "--from", "0", "--follow"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"before\n"
    ok("append", "tailed", stdin="after\n")
    assert process.stdout.readline() == b"after\n"
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, complaints) == (130, b"")


def test_tail_begins_at_the_end() -> None:
    ok("create", "late")
    ok("append", "late", stdin="before\n")
    process = subprocess.Popen(
        [*COMMAND, "stream", "tail", "late", "--limit", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for number in range(TIMEOUT_S * 5):
        ok("append", "late", stdin=f"{number}\n")
        if process.poll() is not None:
            break
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert out.strip().isdigit()


def test_deleting_asks_first() -> None:
    ok("create", "asked")
    assert call("stream", "delete", "asked", stdin="n\n").exit_code == 1
    assert "asked" in told("list")["streams"]


def test_altering_nothing_is_wrong_usage() -> None:
    assert call("stream", "alter", "whatever").exit_code == 2


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("create", "Bad Name"), "'Bad Name' is not a name"),
        (("create", "a/b/c/d"), "is no stream"),
        (("read", "nowhere"), "there is no stream 'default/default/nowhere'"),
        (("read", "default/other/nowhere"), "there is no stream 'default/other/nowhere'"),
        (("append", "nowhere"), "there is no stream"),
        (("alter", "nowhere", "--durability", "always"), "there is no stream"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], words: str) -> None:
    assert words in refusal(*arguments)


def test_names_are_completed(node: Served, contexts_file: Path) -> None:
    ok("create", "completed-one")
    ok("create", "completed-two")
    result = subprocess.run(
        ["flowmesh"],
        executable=str(Path(COMMAND[0]).with_name("flowmesh")),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={
            "PATH": "",
            "_FLOWMESH_COMPLETE": "bash_complete",
            "COMP_WORDS": "flowmesh stream read completed-",
            "COMP_CWORD": "3",
            "FLOWMESH_URL": node.facts["frames"],
            "FLOWMESH_TOKEN_FILE": node.facts["token_file"],
            "FLOWMESH_CONTEXTS": str(contexts_file),
        },
    )
    assert result.stdout.split() == ["plain,completed-one", "plain,completed-two"]
