"""Flags over environment over file over defaults, and every error says which of them it means."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from flowmesh.base.errors import BadRequest
from flowmesh.host.settings import DEFAULTS, Settings, is_loopback, require_safe
from flowmesh.host.settings_sources import as_yaml, gather
from tests.serve.nodes import command, environment, refused, serving


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "flowmesh.yaml"
    place.write_text("http_port: 1\nframes_port: 1\nreader_threads: 1\n", encoding="utf-8")
    return place


def test_the_nearest_source_wins_setting_by_setting(file: Path) -> None:
    found = gather({"http_port": "3"}, {"FLOWMESH_HTTP_PORT": "2", "FLOWMESH_FRAMES_PORT": "2"}, str(file))
    settings = found.settings
    assert (settings.http_port, settings.frames_port, settings.reader_threads) == (3, 2, 1)
    assert settings.data_dir == DEFAULTS.data_dir
    assert [found.sources[name] for name in ("http_port", "frames_port", "reader_threads", "data_dir")] == [
        "--http-port",
        "FLOWMESH_FRAMES_PORT",
        str(file),
        "default",
    ]


def test_without_any_source_the_defaults_hold() -> None:
    assert gather({}, {}, None).settings == Settings()


@pytest.mark.parametrize(
    "text, expected",
    [
        ("disk_reserve_bytes: 64MiB", {"disk_reserve_bytes": 64 << 20}),
        ("disk_reserve_bytes: 4711", {"disk_reserve_bytes": 4711}),
        ("retention_interval_s: 2", {"retention_interval_s": 2.0}),
        ("tls_key: null", {"tls_key": None}),
        ("log_format: json", {"log_format": "json"}),
        ("# nothing", {}),
        ("", {}),
    ],
)
def test_values_in_a_file(tmp_path: Path, text: str, expected: dict[str, Any]) -> None:
    place = tmp_path / "settings.yaml"
    place.write_text(text, encoding="utf-8")
    settings = gather({}, {}, str(place)).settings
    assert {name: getattr(settings, name) for name in expected} == expected


@pytest.mark.parametrize(
    "text, words",
    [
        ("http_prot: 1", "settings.yaml: there is no setting 'http_prot'. Did you mean 'http_port'?"),
        ("http-port: 1", "Did you mean 'http_port'?"),
        ("7: 1", "there is no setting '7'"),
        ("http_port: many", "settings.yaml: http_port is 'many'; it has to be a whole number"),
        ("http_port: 1.5", "has to be a whole number"),
        ("http_port: true", "has to be a whole number"),
        ("http_port: null", "has to be a whole number"),
        ("http_port: 65536", "http_port is 65536; it goes from 0 to 65535"),
        ("http_port: -1", "it goes from 0 to 65535"),
        ("retention_interval_s: .nan", "it goes from 0.01"),
        ("disk_reserve_bytes: 3 apples", "a size such as 65536 or 64MiB"),
        ("data_dir: 5", "data_dir is '5'; it has to be text"),
        ("data_dir: ''", "data_dir is empty"),
        ("log_level: loud", "it is one of debug, info, warning, error"),
        ("[1, 2]", "holds no settings"),
        ("a: [", "is not YAML"),
        ("!!python/object:os.system {}", "is not YAML"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    place = tmp_path / "settings.yaml"
    place.write_text(text, encoding="utf-8")
    with pytest.raises(BadRequest) as raised:
        gather({}, {}, str(place))
    assert words in str(raised.value)
    assert str(place) in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"none\.yaml cannot be read: No such file"):
        gather({}, {}, str(tmp_path / "none.yaml"))


def test_errors_of_the_environment_and_of_flags_name_them() -> None:
    with pytest.raises(BadRequest, match="FLOWMESH_HTTP_PORT is 'x'; it has to be a whole number"):
        gather({}, {"FLOWMESH_HTTP_PORT": "x"}, None)
    with pytest.raises(BadRequest, match="--http-port is 70000; it goes from"):
        gather({"http_port": "70000"}, {}, None)
    with pytest.raises(BadRequest, match=r"no setting FLOWMESH_HTTP_PORTS\. Did you mean FLOWMESH_HTTP_PORT\?"):
        gather({}, {"FLOWMESH_HTTP_PORTS": "1"}, None)


def test_variables_of_other_programs_are_told_and_ignored() -> None:
    """An orchestrator that runs a service called flowmesh sets such ones for its neighbours."""
    others = {"FLOWMESH_SERVICE_HOST": "10.0.0.1", "FLOWMESH_PORT_7400_TCP_ADDR": "x", "FLOWMESH_TOKEN": "a.b"}
    assert gather({}, others, None).ignored == ("FLOWMESH_PORT_7400_TCP_ADDR", "FLOWMESH_SERVICE_HOST")


def test_what_is_printed_can_be_given_back(tmp_path: Path) -> None:
    found = gather({"log_level": "debug"}, {"FLOWMESH_DISK_RESERVE_BYTES": "1KiB"}, None)
    place = tmp_path / "printed.yaml"
    place.write_text(as_yaml(found), encoding="utf-8")
    assert gather({}, {}, str(place)).settings == found.settings
    assert "log_level: debug  # --log-level" in as_yaml(found)


@pytest.mark.parametrize(
    "host, loopback",
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_what_only_this_machine_can_reach(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_half_of_tls_is_refused() -> None:
    with pytest.raises(BadRequest, match="tls_certificate is not"):
        require_safe(Settings(tls_key="key.pem"))


# --- the real command -------------------------------------------------------------------------------------------------


def test_print_config_tells_the_sources_and_starts_nothing(file: Path, tmp_path: Path) -> None:
    told = subprocess.run(
        [*command("--config", file, "--http-port", "0", "--print-config")],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment(FLOWMESH_LOG_LEVEL="error"),
    ).stdout
    assert yaml.safe_load(told)["http_port"] == 0
    assert "http_port: 0  # --http-port\n" in told
    assert "log_level: error  # FLOWMESH_LOG_LEVEL\n" in told
    assert f"frames_port: 1  # {file}\n" in told
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_wrong_setting_ends_the_command(tmp_path: Path) -> None:
    code, said = refused("--data-dir", tmp_path / "data", FLOWMESH_READER_THREADS="none")
    assert (code, said) == (1, "error: FLOWMESH_READER_THREADS is 'none'; it has to be a whole number.\n")


def test_environment_and_file_reach_the_node(tmp_path: Path) -> None:
    place = tmp_path / "settings.yaml"
    place.write_text("log_level: debug\n", encoding="utf-8")
    with serving(tmp_path / "data", variables={"FLOWMESH_CONFIG": str(place), "FLOWMESH_PORT": "tcp://x"}) as node:
        said = node.log.read_text(encoding="utf-8")
        assert "FLOWMESH_PORT is none of this node's settings" in said
