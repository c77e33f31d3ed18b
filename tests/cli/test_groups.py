"""`flowmesh group …` against a real node: positions, lag and holds, for people and as JSON."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import COMMAND, TIMEOUT_S, call, numbers
from tests.serve.nodes import Served

pytestmark = pytest.mark.usefixtures("node")


def ok(*arguments: object, stdin: bytes | str = b"") -> str:
    result = call(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def told(*arguments: object) -> Any:
    return json.loads(ok("group", *arguments, "--json"))


def refusal(*arguments: object, exit_code: int = 1) -> str:
    result = call("group", *arguments)
    assert result.exit_code == exit_code, result.output
    return result.stderr


def make(name: str, partitions: int = 1, records: int = 10) -> str:
    ok("stream", "create", name, "--partitions", partitions)
    for partition in range(partitions):
        ok("stream", "append", name, "--partition", partition, stdin=numbers(0, records))
    return name


def offsets(described: dict[str, Any]) -> list[int]:
    return [position["offset"] for position in described["partitions"]]


def test_a_group_is_made_moved_and_forgotten() -> None:
    stream = make("moved", partitions=2)
    made = told("commit", stream, "billing", "--offset", "0:4", "--offset", "1:10")
    assert (offsets(made), made["lag"], made["kind"], made["holding"]) == ([4, 10], 6, "consumer", False)
    assert told("describe", stream, "billing") == made
    assert offsets(told("commit", f"default/{stream}", "billing", "--offset", "1:2")) == [4, 2]
    assert [each["group"] for each in told("list", stream)["groups"]] == ["billing"]
    assert call("group", "delete", stream, "billing", stdin="n\n").exit_code == 1
    assert "deleted" in ok("group", "delete", stream, "billing", "--yes")
    assert told("list", stream) == {"groups": []}
    assert f"stream default/default/{stream} has no groups" in call("group", "list", stream).stderr


@pytest.mark.parametrize(
    "to, expected",
    [("earliest", [0, 0]), ("latest", [10, 10]), ("7", [7, 7]), ("99", [10, 10]), ("2020-01-01", [0, 0])],
)
def test_all_partitions_are_moved_to_a_place(to: str, expected: list[int]) -> None:
    stream = make(f"placed-{to}", partitions=2)
    assert offsets(told("commit", stream, "g", "--to", to)) == expected
    assert offsets(told("commit", stream, "g", "--to", to, "--offset", "1:3")) == [expected[0], 3]


def test_what_is_not_named_stays() -> None:
    stream = make("staying")
    made = told("commit", stream, "g", "--offset", "0:1", "--kind", "archive", "--hold", "7d", "--location", "s3://x")
    assert (made["hold_s"], made["holding"]) == (7 * 86_400, True)
    moved = told("commit", stream, "g", "--offset", "0:2")
    assert [moved[name] for name in ("kind", "hold_s", "location")] == ["archive", 7 * 86_400, "s3://x"]
    assert offsets(told("commit", stream, "g", "--hold", "none")) == [2]
    assert told("describe", stream, "g")["hold_expires"] is None


def test_tables_for_people() -> None:
    stream = make("shown", partitions=2)
    ok("group", "commit", stream, "cold", "--to", "4", "--kind", "archive", "--hold", "1d")
    said = ok("group", "commit", stream, "live", "--to", "latest")
    assert said.splitlines()[0] == f"group live of default/default/{stream}, consumer, 0 records behind"
    listed = ok("group", "list", stream).splitlines()
    assert listed[0].split() == ["group", "kind", "lag", "hold", "last", "commit"]
    assert [line.split()[:4] for line in listed[1:]] == [
        ["cold", "archive", "12", "until"],
        ["live", "consumer", "0", "none"],
    ]
    described = ok("group", "describe", stream, "cold").splitlines()
    assert described[-3].split() == ["partition", "next", "offset", "end", "lag", "lost"]
    assert described[-1].split() == ["1", "4", "10", "6", "0"]
    assert any(line.startswith("hold ") and "until" in line for line in described)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("list", "nowhere"), "there is no stream 'default/default/nowhere'"),
        (("commit", "nowhere", "g", "--kind", "spark"), "there is no stream"),
        (("describe", "refused", "nobody"), "stream 'default/default/refused' has no group 'nobody'"),
        (("delete", "refused", "nobody", "--yes"), "has no group 'nobody'"),
        (("commit", "refused", "No Name", "--to", "earliest"), "group 'No Name' is not a name"),
        (("commit", "refused", "g", "--offset", "0:11"), "offsets go from 0 to 10"),
        (("commit", "refused", "g", "--offset", "3:0"), "has partitions 0 to 0"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], words: str) -> None:
    if call("stream", "describe", "refused").exit_code:
        make("refused")
    assert words in refusal(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--offset", "1"),
        ("--offset", "1:-1"),
        ("--offset", "0:" + "9" * 5000),
        ("--to", "yesterday"),
        ("--hold", "x"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert refusal("commit", "any", "g", *arguments, exit_code=2)


def test_names_of_groups_are_completed(node: Served, contexts_file: Path) -> None:
    stream = make("completing")
    for name in ("completed-one", "completed-two", "other"):
        ok("group", "commit", stream, name, "--to", "earliest")
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
            "COMP_WORDS": f"flowmesh group describe {stream} completed-",
            "COMP_CWORD": "4",
            "FLOWMESH_URL": node.facts["frames"],
            "FLOWMESH_TOKEN_FILE": node.facts["token_file"],
            "FLOWMESH_CONTEXTS": str(contexts_file),
        },
    )
    assert result.stdout.split() == ["plain,completed-one", "plain,completed-two"]
