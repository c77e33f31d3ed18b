"""No secret in any log, metric or error, whatever is tried; denials and changes are audited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.serve.nodes import Served, serving

STREAM = "/v1/default/default/streams/orders"


def audited(node: Served) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in node.log.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["logger"] == "flowmesh.audit"]


def test_no_secret_is_in_any_log_metric_or_error_or_file(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--log-level", "debug") as node:
        secrets = [node.token.partition(".")[2]]
        _, made = node.ask("POST", "/v1/tokens", {"tenant": "default", "permissions": ["stream.read"]})
        secrets.append(made["token"].partition(".")[2])
        seen: list[str] = []
        for token in (made["token"], "x" + node.token, node.token + "x", node.token[:-1], "a.b", None):
            for method, path, body in (
                ("GET", "/v1/node", None),
                ("PUT", STREAM, {"partitions": 0}),
                ("PUT", STREAM, {"unknown": node.token}),
                ("GET", f"/v1/default/default/streams/{node.token}", None),
                ("DELETE", f"/v1/tokens/{node.token}", None),
                ("POST", f"/v1/tokens/{made['id']}/rotate", {"overlap_s": -1}),
            ):
                status, answer = node.ask(method, path, body, token=token)
                assert status < 500
                seen.append(json.dumps({key: value for key, value in answer.items() if node.token not in str(value)}))
        node.ask("DELETE", f"/v1/tokens/{node.token}")
        _, rotated = node.ask("POST", f"/v1/tokens/{made['id']}/rotate", {})
        secrets.append(rotated["token"].partition(".")[2])
        seen.append(str(node.ask("GET", "/v1/tokens")[1]))
        seen.append(node.ask("GET", "/metrics")[1])
        seen.append(json.dumps(node.facts))
        assert node.stop() == 0
        seen.append(node.log.read_text(encoding="utf-8"))
        files = [path for path in node.data_dir.rglob("*") if path.is_file() and path.name != "admin.token"]
        assert len(files) > 5
        stored = b"".join(path.read_bytes() for path in files)
        for secret in secrets:
            assert len(secret) > 40
            assert not [text for text in seen if secret in text]
            assert secret.encode() not in stored


def test_denials_and_changes_are_audited_with_who_and_what(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as node:
        operator = node.token.partition(".")[0]
        node.ask("PUT", STREAM, {})
        node.ask("PUT", STREAM, {})
        _, made = node.ask("POST", "/v1/tokens", {"tenant": "default", "permissions": ["stream.read"]})
        node.ask("DELETE", STREAM, token=made["token"])
        node.ask("GET", STREAM, token="a.b")
        found = audited(node)
    told = [{key: line[key] for key in line if key not in ("time", "level", "logger")} for line in found]
    assert told[0] == {
        "event": "changed",
        "operation": "stream.create",
        "token": operator,
        "target": "default/default/orders",
        "outcome": "OK",
    }
    assert told[1]["outcome"] == "ALREADY_EXISTS"
    assert (told[2]["operation"], told[2]["target"]) == ("token.create", f"default -> {made['id']}")
    assert (told[3]["operation"], told[3]["token"], told[3]["code"]) == ("stream.delete", made["id"], "FORBIDDEN")
    assert (told[4]["token"], told[4]["code"], told[4]["peer"]) == (None, "UNAUTHENTICATED", "127.0.0.1")


def test_guessing_is_throttled_and_does_not_flood_the_audit_log(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as node:
        identity = node.token.partition(".")[0]
        statuses = [node.ask("GET", "/v1/node", token=f"{identity}.guess{number}")[0] for number in range(400)]
        assert statuses[0] == 401
        assert statuses[-1] == 429
        assert node.ask("GET", "/healthz", token=None)[0] == 200
        assert len(audited(node)) < 350
