"""Each operation over its route: what it takes, what it answers, what it says when it cannot."""

import httpx
import pytest

from flowmesh.operations.table import OPERATIONS
from tests.api.http.conftest import BASE, ServedNode, append, make_stream, problem


def test_the_node_describes_itself(client: httpx.Client) -> None:
    found = client.get("/v1/node").raise_for_status().json()
    assert len(found["id"]) == 16
    assert found["disk_free_bytes"] > 0


def test_tenants_come_and_go(client: httpx.Client) -> None:
    assert client.put("/v1/tenants/acme").status_code == 201
    assert problem(client.put("/v1/tenants/acme"))["code"] == "ALREADY_EXISTS"
    assert "acme" in [tenant["tenant"] for tenant in client.get("/v1/tenants").json()["tenants"]]
    assert client.delete("/v1/tenants/acme").status_code == 204
    assert problem(client.delete("/v1/tenants/acme"))["code"] == "NOT_FOUND"


def test_a_token_is_made_listed_rotated_and_revoked(served: ServedNode, client: httpx.Client) -> None:
    made = client.post("/v1/tokens", json={"tenant": "default", "permissions": ["stream.read"]})
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    first = made.json()
    with served.client(first["token"]) as holder:
        assert holder.get(BASE).status_code == 200
    listed = client.get("/v1/tokens", params={"tenant": "default"})
    assert first["id"] in [token["id"] for token in listed.json()["tokens"]]
    assert first["token"].split(".")[1] not in listed.text
    second = client.post(f"/v1/tokens/{first['id']}/rotate", json={"overlap_s": 60}).raise_for_status().json()
    for token in (first, second):
        with served.client(token["token"]) as holder:
            assert holder.get(BASE).status_code == 200
    for token in (first, second):
        assert client.delete(f"/v1/tokens/{token['id']}").status_code == 204
        with served.client(token["token"]) as holder:
            assert problem(holder.get(BASE))["code"] == "UNAUTHENTICATED"


def test_a_revoked_token_ends_at_once_on_a_connection_that_it_opened(served: ServedNode, client: httpx.Client) -> None:
    stream = make_stream(client, "revoked")
    made = client.post("/v1/tokens", json={"tenant": "default", "permissions": ["stream.write"]}).json()
    with served.client(made["token"]) as holder:
        for _ in range(3):
            append(holder, stream, "x")
        client.delete(f"/v1/tokens/{made['id']}")
        assert problem(holder.post(f"{stream}/records", json={"value": "x"}))["code"] == "UNAUTHENTICATED"


def test_a_stream_is_created_described_altered_listed_and_deleted(client: httpx.Client) -> None:
    path = f"{BASE}/life"
    made = client.put(path, json={"partitions": 3, "retention_bytes": 1_000_000, "durability": "always"})
    assert made.status_code == 201
    assert [part["partition"] for part in made.json()["partitions"]] == [0, 1, 2]
    assert problem(client.put(path))["code"] == "ALREADY_EXISTS"
    altered = client.patch(path, json={"retention_bytes": None, "durability": "batch"}).raise_for_status().json()
    assert (altered["retention_bytes"], altered["durability"]) == (None, "batch")
    assert client.get(path).json() == altered
    assert "life" in client.get(BASE).json()["streams"]
    assert client.delete(path).status_code == 204
    assert problem(client.get(path))["code"] == "NOT_FOUND"
    assert "life" not in client.get(BASE).json()["streams"]


def test_a_stream_of_the_same_name_begins_anew_on_the_connection_that_knew_the_old_one(client: httpx.Client) -> None:
    stream = make_stream(client, "again")
    append(client, stream, "old", "old")
    stream = make_stream(client, "again")
    assert append(client, stream, "new")["appends"][0]["base_offset"] == 0


def test_offsets_are_found_by_time_and_by_name(client: httpx.Client, stream: str) -> None:
    for time, value in (("2026-01-01T00:00:00Z", "a"), ("2026-01-02T00:00:00Z", "b")):
        client.post(f"{stream}/records", json={"value": value, "time": time}).raise_for_status()
    found = [
        client.get(f"{stream}/offset", params=query).raise_for_status().json()["offset"]
        for query in ({}, {"at": "latest"}, {"time": "2026-01-01T12:00:00Z"}, {"time": "2027-01-01"})
    ]
    assert found == [0, 2, 1, 2]


@pytest.mark.parametrize(
    "method, path, body, field",
    [
        ("PUT", f"{BASE}/odd", {"partitons": 2}, "partitons"),
        ("PUT", f"{BASE}/odd", {"partitions": "2"}, "partitions"),
        ("PUT", f"{BASE}/odd", {"partitions": 0}, "partitions"),
        ("PUT", f"{BASE}/odd", {"name": "other"}, "name"),
        ("PUT", f"{BASE}/odd", {"segment_bytes": 1}, "segment_bytes"),
        ("PUT", f"{BASE}/Odd", {}, "name"),
        ("PATCH", f"{BASE}/odd", {"partitions": 2}, "partitions"),
        ("POST", "/v1/tokens", {"permissions": ["stream.read"]}, "tenant"),
        ("POST", "/v1/tokens", {"tenant": "default", "permissions": ["everything"]}, "permissions"),
        ("POST", "/v1/tokens/none/rotate", {"overlap_s": -1}, "overlap_s"),
        ("GET", f"{BASE}/odd/records?ofset=1", None, "ofset"),
        ("GET", f"{BASE}/odd/records?offset=one", None, "offset"),
        ("GET", f"{BASE}/odd/records?tenant=other", None, "tenant"),
        ("GET", f"{BASE}/odd/offset?partition=1&partition=2", None, "partition"),
    ],
)
def test_what_is_wrong_is_named(client: httpx.Client, method: str, path: str, body: object, field: str) -> None:
    found = problem(client.request(method, path, json=body))
    assert (found["status"], found["field"]) == (400, field)


@pytest.mark.parametrize(
    "method, path, body, detail, hint",
    [
        (
            "PUT",
            f"{BASE}/odd",
            {"partitons": 2},
            "no field 'partitons'",
            "Did you mean 'partitions'? There is partitions,",
        ),
        (
            "PUT",
            f"{BASE}/odd",
            {"retention_age": "30d"},
            "no field 'retention_age'",
            "Did you mean 'retention_age_ms'?",
        ),
        ("PUT", f"{BASE}/odd", {"partitions": "2"}, "partitions has to be a whole number.", None),
        ("POST", "/v1/tokens", {"permissions": ["stream.read"]}, "the field 'tenant' is missing.", None),
        ("GET", f"{BASE}/odd/records?wait=1", None, "no query field 'wait'", "Did you mean 'wait_ms'?"),
        ("GET", f"{BASE}/odd/records?limit=ten", None, "limit is 'ten'; it has to be a whole number.", None),
        ("GET", f"{BASE}/odd/records?offset=earliest", None, "offset is 'earliest'; it has to be", "'at=earliest'"),
        ("GET", f"{BASE}/odd", None, "there is no stream 'default/tests/odd'.", "is created before it is used"),
    ],
)
def test_a_refusal_is_told_in_words_for_people(
    client: httpx.Client, method: str, path: str, body: object, detail: str, hint: str | None
) -> None:
    found = problem(client.request(method, path, json=body))
    assert detail in found["detail"]
    assert hint is None or hint in found["hint"]


@pytest.mark.parametrize(
    "content, media_type, status",
    [
        (b"[1]", "application/json", 400),
        (b"{", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b"[" * 100_000, "application/json", 413),
        (b"[" * 60_000, "application/json", 400),
        (b"{}", "text/plain", 415),
    ],
)
def test_a_form_that_is_no_json_object_is_refused(
    client: httpx.Client, content: bytes, media_type: str, status: int
) -> None:
    found = client.put(f"{BASE}/odd", content=content, headers={"content-type": media_type})
    assert problem(found)["status"] == status


def test_the_methods_that_a_path_has_are_named(client: httpx.Client) -> None:
    found = client.request("OPTIONS", f"{BASE}/odd")
    assert problem(found)["status"] == 405
    assert found.headers["allow"] == "DELETE, GET, PATCH, PUT"
    assert "access-control-allow-origin" not in found.headers


def test_every_request_is_told_to_the_observer(served: ServedNode, client: httpx.Client, stream: str) -> None:
    del served.observer.operations[:]
    append(client, stream, "x")
    client.get(f"{stream}/records", params={"offset": 7})
    client.get("/nowhere")
    client.get("/v1/node").raise_for_status()
    assert served.observer.operations[:3] == [
        ("stream.append", "http", "OK"),
        ("stream.read", "http", "OFFSET_OUT_OF_RANGE"),
        ("unrouted", "http", "UNKNOWN_COMMAND"),
    ]
    assert served.observer.connected >= 1


def test_there_is_a_test_here_for_each_kind_of_operation() -> None:
    """Adding an operation to the table without deciding how it looks on this wire fails here."""
    assert {operation.name for operation in OPERATIONS} == {
        "node.describe", "tenant.create", "tenant.list", "tenant.delete",
        "token.create", "token.list", "token.revoke", "token.rotate",
        "stream.create", "stream.describe", "stream.alter", "stream.delete", "stream.list",
        "stream.append", "stream.read", "stream.find", "stream.subscribe",
        "stream.split", "group.commit", "group.describe", "group.list", "group.delete",
    }  # fmt: skip
