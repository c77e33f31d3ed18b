"""The journey names modules and functions; each one named there exists."""

import importlib
import pkgutil
import re
from types import ModuleType

import pytest

import flowmesh
from tests.tidy.tree import ROOT

PAGE = (ROOT / "docs" / "journey.md").read_text(encoding="utf-8")
PACKAGES = {module.name for module in pkgutil.iter_modules(flowmesh.__path__)}
SPAN = re.compile(r"`([a-z_]+(?:\.\w+)+)`")
NAMES = sorted({name for name in SPAN.findall(PAGE) if name.split(".")[0] in PACKAGES})


def resolve(name: str) -> object:
    """The longest module of that name, and then attributes of it."""
    parts = name.split(".")
    found: object = flowmesh
    for count, part in enumerate(parts, 1):
        if isinstance(found, ModuleType) and not hasattr(found, part):
            found = importlib.import_module(".".join(("flowmesh", *parts[:count])))
        else:
            found = getattr(found, part)
    return found


def test_the_page_goes_through_every_layer() -> None:
    assert {name.split(".")[0] for name in NAMES} >= {"cli", "assemble", "host", "log", "format"}
    assert len(NAMES) > 30


@pytest.mark.parametrize("name", NAMES)
def test_what_is_named_exists(name: str) -> None:
    assert not isinstance(resolve(name), ModuleType)


@pytest.mark.parametrize("name", ["log.view.LogView.reed", "log.nowhere.read", "cli.gone"])
def test_what_is_gone_would_be_noticed(name: str) -> None:
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        resolve(name)
