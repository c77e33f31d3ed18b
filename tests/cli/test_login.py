"""`flowmesh login` and `flowmesh context`: tokens are kept safe, and go only to the node that they are for."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tests.cli.running import call
from tests.serve import certificates
from tests.serve.nodes import Served, serving


def logged_in(served: Served, *more: object) -> None:
    arguments = ("--url", served.facts["frames"], "--token-file", served.facts["token_file"])
    result = call("login", *arguments, *more)
    assert result.exit_code == 0, result.output
    assert served.token not in result.output


def test_a_login_is_kept_for_its_owner_alone_and_used(served: Served, contexts_file: Path) -> None:
    logged_in(served)
    assert stat.S_IMODE(contexts_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(contexts_file.parent.stat().st_mode) == 0o700
    found = call("node", "describe", "--json")
    assert json.loads(found.stdout)["id"] == served.facts["node"]


def test_the_token_may_come_from_standard_input(served: Served, contexts_file: Path) -> None:
    result = call("login", "--url", served.facts["frames"], "--token", "-", stdin=served.token + "\n")
    assert result.exit_code == 0, result.output
    result = call("login", "--url", served.facts["frames"], stdin=served.token + "\n")
    assert result.exit_code == 0, "asked for"
    assert served.token not in result.output


def test_a_token_that_is_not_good_is_not_kept(served: Served, contexts_file: Path) -> None:
    result = call("login", "--url", served.facts["frames"], "--token", "wrong.token")
    assert result.exit_code == 1
    assert "this needs a token that this node knows" in result.stderr
    assert not contexts_file.exists()


def test_contexts_are_listed_chosen_and_forgotten(served: Served, contexts_file: Path) -> None:
    logged_in(served, "--name", "one")
    logged_in(served, "--name", "two", "--namespace", "shop")
    listed = json.loads(call("context", "list", "--json").stdout)["contexts"]
    assert [(each["name"], each["current"]) for each in listed] == [("one", False), ("two", True)]
    assert call("stream", "create", "placed").exit_code == 0
    assert call("stream", "describe", "shop/placed", "--context", "one").exit_code == 0
    assert call("context", "use", "one").exit_code == 0
    assert call("stream", "describe", "placed").exit_code == 1
    shown = call("context", "list").stdout
    assert "*  one" in shown
    assert served.token not in shown + json.dumps(listed)
    assert call("context", "remove", "one").exit_code == 0
    assert "there is no context 'one'; there are: two" in call("context", "use", "one").stderr


def test_the_variable_chooses_a_context(served: Served, contexts_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged_in(served, "--name", "one")
    monkeypatch.setenv("FLOWMESH_CONTEXT", "nowhere")
    assert "there is no context 'nowhere'" in call("node", "describe").stderr
    monkeypatch.setenv("FLOWMESH_CONTEXT", "one")
    assert call("node", "describe").exit_code == 0


def test_without_anything_it_says_how_to_log_in(contexts_file: Path) -> None:
    result = call("node", "describe")
    assert result.exit_code == 1
    assert "there is no token for flowmesh://127.0.0.1:7401" in result.stderr
    assert "flowmesh login" in result.stderr


def test_a_token_is_not_sent_to_another_node(served: Served, contexts_file: Path) -> None:
    logged_in(served)
    result = call("node", "describe", "--url", "flowmesh://127.0.0.1:1")
    assert result.exit_code == 1
    assert "its token is not sent to flowmesh://127.0.0.1:1" in result.stderr


def test_a_node_that_is_not_there_is_named(contexts_file: Path) -> None:
    result = call("node", "describe", "--url", "flowmesh://127.0.0.1:1", "--token", "a.b")
    assert result.exit_code == 1
    assert "127.0.0.1:1" in result.stderr


@pytest.mark.parametrize("text", ["current: [", "contexts: 5", "current: x\nunknown: y\n", "contexts: {a: {url: 5}}"])
def test_a_file_that_cannot_be_understood_is_named(contexts_file: Path, text: str) -> None:
    contexts_file.parent.mkdir()
    contexts_file.write_text(text, encoding="utf-8")
    contexts_file.chmod(0o600)
    result = call("context", "list")
    assert result.exit_code == 1
    assert str(contexts_file) in result.stderr


def test_a_file_that_others_can_read_is_warned_of(contexts_file: Path) -> None:
    contexts_file.parent.mkdir()
    contexts_file.write_text("{}", encoding="utf-8")
    contexts_file.chmod(0o644)
    assert "can be read by others" in call("context", "list").stderr


@pytest.mark.parametrize("content", [b"", b"no dot", b"\xff\xfe", b"two.tokens and.more"])
def test_a_file_without_a_token_is_named(contexts_file: Path, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    result = call("node", "describe", "--token-file", file)
    assert result.exit_code == 1
    assert f"{file} holds no token" in result.stderr


def test_a_node_with_tls_is_used_with_its_authority(tmp_path: Path, contexts_file: Path) -> None:
    certificate, key = certificates.make(tmp_path)
    with serving(tmp_path / "data", "--tls-certificate", certificate, "--tls-key", key) as node:
        where = ("--url", node.facts["frames"], "--token-file", node.facts["token_file"])
        stranger = call("node", "describe", *where)
        assert stranger.exit_code == 1
        assert "certificate" in stranger.stderr.lower()
        assert call("login", *where, "--ca-file", certificate).exit_code == 0
        assert call("stream", "create", "over-tls").exit_code == 0
