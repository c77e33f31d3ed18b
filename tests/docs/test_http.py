"""The page about HTTP is true: its commands run, its answers have that shape, its tables say what the code says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowmesh.api.http import bounds
from flowmesh.api.http.appending import DECODERS
from flowmesh.api.http.media import FORMS
from flowmesh.api.http.problems import MEANINGS
from flowmesh.base import limits
from tests.api.http.conftest import ServedNode
from tests.tidy.tree import ROOT

PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(sh|json)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    node = ServedNode(tmp_path / "data").start()
    yield node
    node.stop()


def shape(value: Any) -> Any:
    """What a program depends on: the names, and that a list is one."""
    if isinstance(value, dict):
        return {name: shape(found) for name, found in value.items() if name != "headers"}
    return [shape(found) for found in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_commands_run_and_the_answers_look_like_that(node: ServedNode) -> None:
    environment = {**os.environ, "URL": node.url, "TOKEN": node.token, "NO_PROXY": "127.0.0.1"}
    blocks = BLOCK.findall(PAGE)
    ran = 0
    for position, (kind, text) in enumerate(blocks):
        if kind == "json":
            continue
        run = ["bash", "-euo", "pipefail", "-c", text]
        answer = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=30, check=True).stdout
        following = blocks[position + 1] if position + 1 < len(blocks) else ("", "")
        if following[0] == "json":
            assert shape(json.loads(answer)) == shape(json.loads(following[1]))
        else:
            assert '"code":' not in answer
        ran += 1
    assert ran >= 7


def test_every_error_code_stands_in_the_row_of_its_status() -> None:
    rows = {int(row[1]): row[2] for row in re.finditer(r"^\| (\d{3}) \| (.*) \|$", PAGE, re.MULTILINE)}
    for code, meaning in MEANINGS.items():
        assert f"`{code.value}`" in rows[meaning.status]


def test_every_form_is_named() -> None:
    for media in {*DECODERS, *FORMS}:
        assert f"`{media.decode()}`" in PAGE


def test_the_limits_are_those_of_the_code() -> None:
    for words, value in (
        ("| 32 MiB |", limits.REQUEST_BYTES_MAX == 32 * limits.MIB),
        ("| 1,000,000 |", limits.REQUEST_RECORDS_MAX == 1_000_000),
        ("| 16 MiB |", limits.RECORD_BYTES_MAX == 16 * limits.MIB),
        ("| 1,000; 1 KiB |", (bounds.RECORD_HEADERS_MAX, limits.HEADER_NAME_BYTES_MAX) == (1000, 1024)),
        ("| 32 KiB, within 10 s |", (bounds.HEAD_BYTES_MAX, bounds.HEAD_TIMEOUT_S) == (32 * 1024, 10)),
        ("| 15 KiB in 15 s |", (bounds.BODY_WINDOW_BYTES_MIN, bounds.BODY_WINDOW_S) == (15 * 1024, 15)),
        ("| 75 s |", bounds.IDLE_TIMEOUT_S == 75),
        ("100,000 records or 16 MiB", (bounds.PAGE_RECORDS_MAX, bounds.PAGE_BYTES_MAX) == (100_000, 16 * limits.MIB)),
        ("| 60 s |", limits.READ_WAIT_MS_MAX == 60_000),
        ("| groups of a stream | 256 |", limits.GROUPS_PER_STREAM_MAX == 256),
        ("after 30 seconds", bounds.STALL_TIMEOUT_S == 30),
        ("every 15 seconds", bounds.HEARTBEAT_S == 15),
    ):
        assert words in PAGE
        assert value, words
