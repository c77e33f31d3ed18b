"""A node on a file system that is really full: writing is refused, reading and deleting go on, and it heals."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.nodes import Served, serving

RESERVE = 512 * 1024
VALUE = "x" * 100_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    command = ["mount", "-t", "tmpfs", "-o", "size=6m,mode=0700", "flowmesh-test", str(place)]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def stream(name: str) -> str:
    return f"/v1/default/default/streams/{name}"


def append(node: Served, name: str) -> tuple[int, str]:
    status, reply = node.ask("POST", f"{stream(name)}/records", {"value": VALUE})
    return status, "" if status < 300 else reply["code"]


def fill(node: Served, name: str) -> int:
    """Appends until it is refused; returns how many were taken."""
    for taken in range(200):
        status, code = append(node, name)
        if status >= 300:
            assert (status, code) == (507, "DISK_FULL")
            return taken
    raise AssertionError("the disk does not fill up")


def test_a_full_disk_is_refused_early_and_heals_when_something_is_deleted(small_disk: Path) -> None:
    data = small_disk / "data"
    with serving(data, "--disk-reserve-bytes", RESERVE, "--log-level", "debug") as node:
        node.ask("PUT", stream("kept"), {})
        node.ask("PUT", stream("large"), {})
        assert append(node, "kept")[0] in (200, 201)
        taken = fill(node, "large")
        assert taken > 20
        numbers = os.statvfs(small_disk)
        assert numbers.f_bavail * numbers.f_frsize >= RESERVE - 200_000
        status, page = node.ask("GET", f"{stream('large')}/records?at=earliest&limit=1")
        assert (status, page["records"][0]["value"]) == (200, VALUE)
        assert node.stop() == 0
    with serving(data, "--disk-reserve-bytes", RESERVE) as node:
        assert append(node, "kept")[1] == "DISK_FULL"
        assert node.ask("DELETE", stream("large"))[0] in (200, 204)
        assert append(node, "kept")[0] in (200, 201), "no restart is needed"
