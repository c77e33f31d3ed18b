"""Each rule is shown something to find, and something to leave alone. A rule that cannot fail is a defect."""

from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from tests.tidy import documents, rules
from tests.tidy.tree import SourceFile


def written(text: str, path: str = "src/flowmesh/log/view.py") -> SourceFile:
    # "^" keeps the samples from being findings themselves.
    return SourceFile(PurePosixPath(path), text.replace("^", ""))


def opens(file: SourceFile) -> list[str]:
    return rules.calls(file, frozenset({"open"}))


def clocks(file: SourceFile) -> list[str]:
    return rules.imports(file, frozenset({"time"}))


@pytest.mark.parametrize(
    "rule, bad, good",
    [
        (rules.long_functions, "def f():\n" + "    pass\n" * 60, "def f():\n" + "    pass\n" * 59),
        (rules.missing_docstring, "x = 1\n", '"""Views."""\n'),
        (rules.unfinished, "# TO^DO: later\n", "todo = 1\n"),
        (rules.unfinished, "raise NotImplemented^Error\n", "return NotImplemented\n"),
        (opens, "open('x')\n", "disk.open('x')\n"),
        (clocks, "from time import sleep\n", "from flowmesh.base.times import Time\n"),
        (clocks, "def f():\n    import time\n", "time = 1\n"),
        (rules.beyond_the_standard_library, "import msgspec\n", "import struct\nfrom flowmesh.base import limits\n"),
        (rules.not_for_the_repository, "see /^work/main", "a framework/main"),
        (rules.not_for_the_repository, "https://py^pi.org/simple", "a package index"),
        (rules.not_for_the_repository, "-----BEGIN PRIVATE^ KEY-----", "a private key"),
        (rules.not_for_the_repository, "AKIA^ABCDEFGHIJKLMNOP", "AKIA"),
        (rules.not_for_the_repository, "http:^//me:secret@host", "http://host:7400/path"),
    ],
)
def test_rule_finds_the_bad_and_leaves_the_good(rule: Callable[[SourceFile], list[str]], bad: str, good: str) -> None:
    assert len(rule(written(bad))) == 1
    assert rule(written(good)) == []


def test_length_is_counted_in_lines() -> None:
    assert rules.too_long(written("\n" * 11), 10)
    assert not rules.too_long(written("\n" * 10), 10)


@pytest.mark.parametrize("name", ["log/util.py", "log/disk_utils.py", "common/view.py", "log/segment_manager.py"])
def test_vague_names_are_found(name: str) -> None:
    assert rules.vague_names(written("", name))


@pytest.mark.parametrize("name", ["log/utility_bills.py", "log/commons.py", "log/management.py"])
def test_clear_names_pass(name: str) -> None:
    assert not rules.vague_names(written("", name))


def test_a_class_name_is_used_once() -> None:
    one, other = written("class A: ...\nclass B: ...\n"), written("class A: ...\n", "src/flowmesh/host/disk.py")
    assert len(rules.repeated_classes([one, other])) == 1
    assert rules.repeated_classes([one]) == []


def test_a_link_must_lead_to_a_file_and_a_heading(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# The `one` idea\n")
    page = written("[a](there.md) [b](there.md#the-one-idea) [c](https://example.org) `[d](code.md)`", "page.md")
    assert documents.broken_links(page, tmp_path) == []
    page = written("[a](gone.md) [b](there.md#other)\n\n[c]: gone-too.md\n", "page.md")
    assert len(documents.broken_links(page, tmp_path)) == 3


def test_a_make_command_must_have_a_target() -> None:
    page = written("Run `make demo`, make sure of it, then\n\n    make fly\n", "page.md")
    assert documents.unknown_make_targets(page, "demo: x\n") == ["page.md: no target for make fly"]
