"""The house rules, run over the Python in the repository."""

import warnings
from collections.abc import Callable

import pytest

from tests.tidy import rules
from tests.tidy.tree import SourceFile, python_files, tracked_files

SECOND_LOOK_LINES = 400
SOURCE_LINES_MAX = 600
TEST_LINES_MAX = 800


def findings(rule: Callable[[SourceFile], list[str]], files: list[SourceFile]) -> str:
    assert files, "nothing was looked at"
    return "\n".join(finding for file in files for finding in rule(file))


def core_files() -> list[SourceFile]:
    return [file for file in python_files("src") if file.package in rules.CORE_PACKAGES]


@pytest.mark.parametrize(
    "rule",
    [rules.long_functions, rules.missing_docstring, rules.unfinished],
    ids=lambda rule: rule.__name__,
)
def test_sources_keep_the_rule(rule: Callable[[SourceFile], list[str]]) -> None:
    assert not findings(rule, python_files("src"))


def test_module_names_say_what_the_module_is() -> None:
    assert not findings(rules.vague_names, python_files("src", "tests", "benchmarks", "examples"))


@pytest.mark.parametrize(
    "tops, lines_max",
    [(("src",), SOURCE_LINES_MAX), (("tests", "benchmarks", "examples"), TEST_LINES_MAX)],
    ids=["src", "others"],
)
def test_files_stay_small(tops: tuple[str, ...], lines_max: int) -> None:
    assert not findings(lambda file: rules.too_long(file, lines_max), python_files(*tops))


@pytest.mark.filterwarnings("default")
def test_long_files_get_a_second_look() -> None:
    """Never fails: it puts files that grow towards the limit into the summary of the run."""
    for file in python_files("src"):
        for finding in rules.too_long(file, SECOND_LOOK_LINES):
            warnings.warn(f"second look: {finding}", stacklevel=1)


def test_no_two_classes_share_a_name() -> None:
    assert rules.repeated_classes(python_files("src")) == []


def test_only_the_command_line_prints() -> None:
    below = [file for file in python_files("src") if file.package != "cli"]
    assert not findings(lambda file: rules.calls(file, frozenset({"print"})), below)


def test_cores_call_nothing_that_reaches_the_world() -> None:
    assert not findings(lambda file: rules.calls(file, rules.WORLD_BUILTINS), core_files())


def test_cores_import_nothing_that_reaches_the_world() -> None:
    assert not findings(lambda file: rules.imports(file, rules.WORLD_IMPORTS), core_files())


def test_base_needs_only_the_standard_library() -> None:
    base = [file for file in python_files("src") if file.package == "base"]
    assert not findings(rules.beyond_the_standard_library, base)


def test_nothing_tracked_names_a_machine_a_registry_or_a_secret() -> None:
    assert not findings(rules.not_for_the_repository, list(tracked_files()))
