"""How a node starts: what it says, what it leaves on the disk, and what it refuses with one line and exit code 1."""

from __future__ import annotations

import json
import socket
import ssl
import stat
import subprocess
from pathlib import Path

import pytest

from tests.serve import certificates
from tests.serve.nodes import PATIENCE_S, command, environment, refused, serving

FREE = ("--http-port", 0, "--frames-port", 0)


def test_a_node_says_where_it_is_and_keeps_its_secret_to_its_owner(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as node:
        assert stat.S_IMODE(node.data_dir.stat().st_mode) == 0o700
        assert stat.S_IMODE(Path(node.facts["token_file"]).stat().st_mode) == 0o600
        assert node.facts["frames"].startswith("flowmesh://127.0.0.1:")
        status, described = node.ask("GET", "/v1/node")
        assert (status, described["id"]) == (200, node.facts["node"])
        assert node.token not in json.dumps(node.facts)


def test_for_people_it_prints_lines_that_end_with_ready(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command("--data-dir", tmp_path / "data", *FREE),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    with process.stdout:
        lines: list[str] = []
        while not lines or lines[-1] != "ready\n":
            line = process.stdout.readline()
            assert line, lines
            lines.append(line)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    text = "".join(lines)
    assert f"{tmp_path / 'data'}/admin.token" in text
    assert "http    http://127.0.0.1:" in text
    assert (tmp_path / "data" / "admin.token").read_text(encoding="utf-8").strip() not in text


def test_a_second_node_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as node:
        code, said = refused("--data-dir", node.data_dir, *FREE)
        assert code == 1
        assert "another node runs on" in said
        assert node.ask("GET", "/v1/node")[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_a_public_address_without_tls_is_refused(tmp_path: Path, host: str) -> None:
    code, said = refused("--data-dir", tmp_path / "data", "--host", host, *FREE)
    assert code == 1
    assert "there is no TLS" in said
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("wire", ["http", "frames"])
def test_a_port_in_use_is_named_and_nothing_stays_half_open(tmp_path: Path, wire: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        other = "frames" if wire == "http" else "http"
        code, said = refused("--data-dir", tmp_path / "data", f"--{wire}-port", port, f"--{other}-port", 0)
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port} for {wire}" in said
    assert sum("error:" in line for line in said.splitlines()) == 1
    with serving(tmp_path / "data") as node:
        assert node.ask("GET", "/v1/node")[0] == 200, "the token of the start that failed is good"


def test_a_data_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    code, said = refused("--data-dir", tmp_path / "file", *FREE)
    assert code == 1
    assert str(tmp_path / "file") in said


def test_a_newer_format_is_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "node.json").write_text('{"format":"flowmesh.node","version":99,"id":"a"}', encoding="utf-8")
    code, said = refused("--data-dir", data, *FREE)
    assert code == 1
    assert "version 99" in said
    assert sorted(path.name for path in data.iterdir()) == ["lock", "node.json"]


def test_tls_is_spoken_and_nothing_else(tmp_path: Path) -> None:
    certificate, key = certificates.make(tmp_path)
    with serving(tmp_path / "data", "--tls-certificate", certificate, "--tls-key", key) as node:
        context = ssl.create_default_context(cafile=str(certificate))
        assert node.ask("GET", "/healthz", context=context)[0] == 200
        assert node.facts["http"].startswith("https://")
        host, _, port = node.facts["http"].removeprefix("https://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert not plain.recv(100).startswith(b"HTTP/1.1 200")


def test_tls_that_cannot_be_set_up_is_refused(tmp_path: Path) -> None:
    certificate, key = certificates.make(tmp_path, b"a password")
    where = ("--data-dir", tmp_path / "data", *FREE)
    for arguments, words in (
        (("--tls-certificate", certificate), "tls_key is not"),
        (("--tls-certificate", tmp_path / "none", "--tls-key", key), "tls_certificate"),
        (("--tls-certificate", certificate, "--tls-key", key), "encrypted"),
        (("--tls-certificate", key, "--tls-key", key), "TLS cannot be set up"),
    ):
        code, said = refused(*where, *arguments)
        assert code == 1
        assert words in said
    assert not (tmp_path / "data").exists()
