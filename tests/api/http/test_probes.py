"""Ten thousand probes of names that are another's, or are no names: all refused, all alike, none answered with data."""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from random import Random
from typing import Any

import httpx
import pytest

from tests.api.http.conftest import ServedNode, append

PROBES = 10_000
CONNECTIONS = 20
SECRET = "what-only-the-other-tenant-may-see"
FOREIGN = ("victim", "in", "orders")
PIECES = """
    victim in orders probing %76ictim vict%69m victim%00 victim%2f victim%2Fin victim%252fin .. %2e%2e %252e%252e . %2e
    victim. VICTIM %ef%bd%96ictim v%C3%ADctim victim%20 victim;x %00 * %2a victim%0a victim%ff %e2%80%aevictim
    v%e2%80%8bictim %5c ..%5cin streams orders%3fx orders%23 in%2fstreams%2forders victim%c0%af %uff0e%uff0e orders%2e
    -orders %F0%9D%95%A7ictim victim%09 vi%63tim%2e%2e orders%26 $victim ~ %7e victim%u002f in%2e%2e%2fin
    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
""".split()  # noqa: SIM905
CALLS = [("GET", ""), ("GET", "/records"), ("POST", "/records"), ("GET", "/offset"), ("GET", "/events"),
         ("PUT", ""), ("PATCH", ""), ("DELETE", "")]  # fmt: skip


def probe(random: Random) -> tuple[str, str]:
    method, rest = random.choice(CALLS)
    parts = list(FOREIGN)
    for position in range(3):
        if random.random() < 0.4:
            parts[position] = random.choice(PIECES)
    tenant, namespace, name = parts
    slash = random.choice(["/"] * 12 + ["%2f", "//", "/./", "/../", "%252f", "\\"])
    path = f"/v1/{tenant}/{namespace}{slash}streams/{name}{rest}"
    return method, path.replace("\\", "%5c")


async def ask(port: int, token: str, probes: list[tuple[str, str]]) -> list[tuple[str, str, int, dict[str, Any]]]:
    """Several requests on one connection, sent before any is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = []
    for start in range(0, len(probes), 50):
        batch = probes[start : start + 50]
        for method, path in batch:
            head = f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
            writer.write(f"{head}content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}".encode())
        for method, path in batch:
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", answer)
            body = await reader.readexactly(int(length[1])) if length else b""
            assert SECRET.encode() not in body
            assert b"application/problem+json" in answer, (method, path, answer)
            found.append((method, path, int(answer.split()[1]), json.loads(body)))
    writer.close()
    return found


@pytest.fixture
def thief(served: ServedNode, client: httpx.Client) -> str:
    for tenant in ("victim", "probing"):
        client.put(f"/v1/tenants/{tenant}")
    stream = "/v1/victim/in/streams/orders"
    client.put(stream)
    append(client, stream, SECRET)
    form = {"tenant": "probing", "permissions": ["admin"]}
    token: str = client.post("/v1/tokens", json=form).raise_for_status().json()["token"]
    return token


def test_probes_are_refused_alike(served: ServedNode, client: httpx.Client, thief: str) -> None:
    random = Random(7)
    probes = [probe(random) for _ in range(PROBES)]
    probes = [(method, path) for method, path in probes if not path.startswith("/v1/probing/")]

    async def run() -> list[tuple[str, str, int, dict[str, Any]]]:
        shares = [probes[start::CONNECTIONS] for start in range(CONNECTIONS)]
        answers = await asyncio.gather(*(ask(served.port, thief, share) for share in shares))
        return [answer for share in answers for answer in share]

    found = asyncio.run(run())
    assert len(found) == len(probes) > 0.8 * PROBES
    shapes: dict[tuple[int, str, str | None, tuple[str, ...]], int] = defaultdict(int)
    for method, path, status, body in found:
        shapes[status, body["code"], body.get("field"), tuple(sorted(body))] += 1
        assert status in (400, 404, 405), (method, path, body)
        if status == 404 and body["code"] == "NOT_FOUND":
            assert re.fullmatch(r"there is no stream '[a-z0-9/._-]+'\.", body["detail"]), body
    assert len(shapes) <= 10, dict(shapes)
    records = client.get("/v1/victim/in/streams/orders/records").json()["records"]
    assert [record["value"] for record in records] == [SECRET]
    assert client.get("/v1/victim/in/streams").json() == {"streams": ["orders"]}


@pytest.mark.parametrize("method, rest", CALLS)
def test_what_exists_elsewhere_is_refused_in_the_words_for_what_does_not(
    served: ServedNode, thief: str, method: str, rest: str
) -> None:
    with served.client(thief) as client:
        answers = [
            client.request(method, f"/v1/victim/in/streams/{name}{rest}", json={} if method != "GET" else None)
            for name in ("orders", "ordert")
        ]
    real, imagined = answers
    assert real.status_code == imagined.status_code == 404
    assert real.text.replace("orders", "ordert") == imagined.text
    assert real.headers.keys() == imagined.headers.keys()


def test_guessing_secrets_is_slowed_down_and_leaves_good_tokens_alone(own_node: ServedNode) -> None:
    identity = own_node.token.partition(".")[0]
    with own_node.client() as good, own_node.client("") as guesser:
        good.get("/v1/node").raise_for_status()
        statuses = []
        for number in range(40):
            found = guesser.get("/v1/node", headers={"authorization": f"Bearer {identity}.guess{number}"})
            assert "guess" not in found.text
            statuses.append(found.status_code)
        assert statuses[:20] == [401] * 20
        assert statuses[-1] == 429
        assert good.get("/v1/node").status_code == 200


def test_secrets_are_in_no_refusal(served: ServedNode, client: httpx.Client) -> None:
    secret = served.token.partition(".")[2]
    for header in (served.token, f"Basic {served.token}", f"Bearer {served.token}x", f"bearer  {served.token} x"):
        for path in ("/v1/node", "/nowhere", "/v1/default/tests/streams/none/records?offset=x", "/metrics"):
            found = httpx.get(served.url + path, headers={"authorization": header}, trust_env=False)
            assert secret not in found.text
            assert secret not in str(found.headers)
