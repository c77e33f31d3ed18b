"""Groups and splits over HTTP: positions, lag, holds, and what is wrong is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from flowmesh.base import limits, times
from tests.api.http.conftest import BASE, ServedNode, append, make_stream, name_of, problem


@pytest.fixture
def halves(client: httpx.Client, request: pytest.FixtureRequest) -> str:
    """A stream with two partitions, and five records in the first one."""
    stream = make_stream(client, name_of(request), partitions=2)
    for _ in range(5):
        client.post(f"{stream}/records?partition=0", json={"value": "x"}).raise_for_status()
    return stream


def commit(client: httpx.Client, stream: str, name: str, **fields: Any) -> dict[str, Any]:
    found = client.put(f"{stream}/groups/{name}", json=fields).raise_for_status()
    reply: dict[str, Any] = found.json()
    return reply


def test_a_group_says_where_it_is_and_how_far_behind(client: httpx.Client, halves: str) -> None:
    made = commit(client, halves, "billing", offsets={"0": 2})
    name = halves.rpartition("/")[2]
    assert (made["stream"], made["group"], made["kind"], made["lag"]) == (name, "billing", "consumer", 3)
    assert made["partitions"] == [{"partition": 0, "offset": 2, "end_offset": 5, "lag": 3, "start_offset": 0}]
    assert (made["hold_s"], made["hold_expires"], made["location"]) == (None, None, None)
    assert client.get(f"{halves}/groups/billing").json() == made
    append(client, halves, "more")
    more = commit(client, halves, "billing", offsets={"1": 0})
    assert [part["offset"] for part in more["partitions"]] == [2, 0], "what is not named stays"
    assert more["lag"] == 4
    assert more["created"] == made["created"] < more["updated"]


def test_a_hold_says_when_it_ends(client: httpx.Client, halves: str) -> None:
    made = commit(client, halves, "archive", offsets={"0": 0}, kind="archive", hold_s=3600, location="s3://cold/x")
    left_ns = times.from_text(made["hold_expires"]) - times.from_text(made["updated"])
    assert made["holding"]
    assert 0 <= left_ns - 3600 * times.NANOSECONDS < 600 * times.NANOSECONDS
    assert (made["kind"], made["hold_s"], made["location"]) == ("archive", 3600, "s3://cold/x")
    assert commit(client, halves, "archive", kind="archive")["hold_expires"] is None


def test_groups_are_listed_and_deleted_and_go_with_their_stream(client: httpx.Client, halves: str) -> None:
    for name in ("b", "a"):
        commit(client, halves, name, offsets={"0": 1})
    listed = client.get(f"{halves}/groups").json()["groups"]
    assert [group["group"] for group in listed] == ["a", "b"]
    assert listed[0] == client.get(f"{halves}/groups/a").json()
    assert client.delete(f"{halves}/groups/a").status_code == 204
    for method in ("GET", "DELETE"):
        gone = problem(client.request(method, f"{halves}/groups/a"))
        assert (gone["code"], gone["field"]) == ("NOT_FOUND", "group")
    make_stream(client, halves.rpartition("/")[2])
    assert client.get(f"{halves}/groups").json() == {"groups": []}
    assert problem(client.get(f"{BASE}/nowhere/groups"))["field"] == "name"


@pytest.mark.parametrize(
    "name, body, field",
    [
        ("g", {"offsets": {"2": 0}}, "offsets"),
        ("g", {"offsets": {"-1": 0}}, "offsets"),
        ("g", {"offsets": {"0": 6}}, "offsets"),
        ("g", {"offsets": {"0": -1}}, "offsets"),
        ("g", {"offsets": {"0": 0, "1": 1}}, "offsets"),
        ("g", {"offsets": {"zero": 1}}, "offsets"),
        ("g", {"offsets": [1]}, "offsets"),
        ("g", {"kind": "reader"}, "kind"),
        ("g", {"hold_s": 0}, "hold_s"),
        ("g", {"hold_s": limits.GROUP_HOLD_S_MAX + 1}, "hold_s"),
        ("g", {"location": "a\nb"}, "location"),
        ("g", {"hold": 5}, "hold"),
        ("G", {}, "group"),
        ("..", {}, "group"),
    ],
)
def test_what_cannot_be_committed_is_named_and_changes_nothing(
    client: httpx.Client, halves: str, name: str, body: dict[str, Any], field: str
) -> None:
    found = problem(client.put(f"{halves}/groups/{name.replace('.', '%2e')}", json=body))
    assert (found["status"], found["field"]) == (400, field)
    assert client.get(f"{halves}/groups").json() == {"groups": []}


def test_a_location_has_a_limit(client: httpx.Client, halves: str) -> None:
    text = "x" * (limits.GROUP_LOCATION_CHARS_MAX + 1)
    assert problem(client.put(f"{halves}/groups/g", json={"location": text}))["code"] == "TOO_LARGE"
    assert commit(client, halves, "g", location=text[1:])["location"] == text[1:]


def test_positions_are_there_after_a_restart(own_node: ServedNode) -> None:
    with own_node.client() as client:
        stream = make_stream(client, "kept")
        append(client, stream, *"abc")
        before = commit(client, stream, "g", offsets={"0": 2}, hold_s=60)
    own_node.stop()
    again = ServedNode(Path(own_node.settings.data_dir)).start()
    try:
        with again.client() as client:
            after = client.get(f"{stream}/groups/g").json()
            assert {**after, "hold_expires": None} == {**before, "hold_expires": None}
            assert after["hold_expires"] > before["updated"]
    finally:
        again.stop()


def test_commits_are_no_business_of_the_audit_log_and_deletions_are(own_node: ServedNode) -> None:
    seen: list[Any] = []
    own_node.on_loop(lambda: setattr(own_node.running.service, "audit", seen.append))
    with own_node.client() as client:
        stream = make_stream(client, "audited")
        commit(client, stream, "g")
        client.delete(f"{stream}/groups/g")
    assert [change.operation for change in seen][-2:] == ["stream.create", "group.delete"]
    assert seen[-1].target == "default/tests/audited/g"


def test_a_range_is_cut_into_pieces_that_are_the_whole(client: httpx.Client, stream: str) -> None:
    for _ in range(8):
        append(client, stream, *["x" * 30_000] * 2)
    found = client.get(f"{stream}/splits", params={"split_bytes": limits.SPLIT_BYTES_MIN}).raise_for_status().json()
    pieces = found.pop("splits")
    assert found == {"partition": 0, "start_offset": 0, "end_offset": 16}
    assert len(pieces) > 3
    bounds = [piece["base_offset"] for piece in pieces] + [16]
    assert bounds == sorted(set(bounds))
    assert [piece["end_offset"] for piece in pieces] == bounds[1:]
    assert bounds[0] == 0
    some = client.get(f"{stream}/splits", params={"offset": 3, "end_offset": 5}).json()["splits"]
    assert [(piece["base_offset"], piece["end_offset"]) for piece in some] == [(3, 5)]


@pytest.mark.parametrize(
    "query, code, field",
    [
        ({"offset": 17}, "OFFSET_OUT_OF_RANGE", "offset"),
        ({"end_offset": -1}, "OFFSET_OUT_OF_RANGE", "offset"),
        ({"offset": 1, "end_offset": 0}, "BAD_REQUEST", "end_offset"),
        ({"split_bytes": 1}, "BAD_REQUEST", "split_bytes"),
        ({"partition": 1}, "BAD_REQUEST", "partition"),
    ],
)
def test_a_range_that_cannot_be_cut_is_named(
    client: httpx.Client, stream: str, query: dict[str, int], code: str, field: str
) -> None:
    append(client, stream, "x")
    found = problem(client.get(f"{stream}/splits", params=query))
    assert (found["code"], found["field"]) == (code, field)


def test_a_hold_keeps_records_from_retention_until_it_is_over(own_node: ServedNode) -> None:
    running = own_node.running
    with own_node.client() as client:
        stream = make_stream(client, "held", segment_bytes=65_536, retention_bytes=0)
        for _ in range(5):
            append(client, stream, "x" * 60_000)
        commit(client, stream, "slow", offsets={"0": 2}, hold_s=1000)
        running.writer.call(running.node.trim).result(30)
        assert client.get(f"{stream}/groups/slow").json()["partitions"][0]["start_offset"] == 2
        commit(client, stream, "slow")
        running.writer.call(running.node.trim).result(30)
        late = client.get(f"{stream}/groups/slow").json()["partitions"][0]
        assert (late["offset"], late["start_offset"], late["lag"]) == (2, 4, 3)
