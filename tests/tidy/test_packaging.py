"""What is declared twice says the same thing twice."""

import importlib.util
import re
import tomllib
from typing import Any

import pytest

from tests.tidy.tree import ROOT

REQUIREMENT_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*", re.MULTILINE)
LOCKS = sorted(path.stem for path in (ROOT / "requirements").glob("*.in"))


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def declared(name: str) -> list[str]:
    lines = (ROOT / "requirements" / f"{name}.in").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if REQUIREMENT_NAME.match(line)]


def test_core_requirements_are_the_dependencies_of_the_package() -> None:
    assert sorted(declared("core")) == sorted(project()["dependencies"])


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_locked_with_hashes(name: str) -> None:
    lock = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    assert {REQUIREMENT_NAME.findall(line)[0] for line in declared(name)} <= set(REQUIREMENT_NAME.findall(lock))
    pins = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)[1:]
    assert pins
    assert [pin.split()[0] for pin in pins if "==" not in pin or "--hash=sha256:" not in pin] == []


@pytest.mark.parametrize("script", sorted(project()["scripts"]))
def test_every_script_has_its_module(script: str) -> None:
    module = project()["scripts"][script].partition(":")[0]
    assert importlib.util.find_spec(module) is not None
