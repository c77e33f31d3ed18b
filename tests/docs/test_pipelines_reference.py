"""The page of pipelines is complete and true: its tables, and what it shows as a file."""

import ast
import re
from pathlib import Path

import pytest
import yaml

from flowmesh.pipelines.declarative import is_declarative
from flowmesh.pipelines.python_file import FUNCTION, PythonRun, has_function
from flowmesh.pipelines.spec import TABLES
from flowmesh.pipelines.spec_file import load, parse
from tests.docs.pages import rows
from tests.pipelines.reference import rows_of
from tests.tidy.tree import ROOT

PAGE = "pipelines.md"
TEXT = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("title", TABLES)
def test_every_field_is_on_the_page_as_it_is(title: str) -> None:
    expected = [[field.strip("`"), default.strip("`"), meaning] for field, default, meaning in rows_of(TABLES[title])]
    assert rows(PAGE, title) == expected


def test_every_pipeline_on_the_page_is_taken(tmp_path: Path) -> None:
    """Parts of a file are shown as indented lines: what stands in a block is whole."""
    found = blocks("yaml")
    assert len(found) > 1
    place = tmp_path / "pipeline.yaml"
    for block in found:
        place.write_text(block, encoding="utf-8")
        whole = load(place)
        assert not is_declarative(place, whole)
        assert parse(whole, {}).name == yaml.safe_load(block)["name"]


def test_the_python_files_on_the_page_have_the_function_and_use_what_there_is(tmp_path: Path) -> None:
    found = blocks("python")
    assert found
    place = tmp_path / "pipeline.py"
    for block in found:
        place.write_text(block, encoding="utf-8")
        assert has_function(place)
        (function,) = (node for node in ast.parse(block).body if getattr(node, "name", None) == FUNCTION)
        assert isinstance(function, ast.FunctionDef)
        assert [each.arg for each in function.args.args] == ["spark", "run"]
        assert used_of("run", function) <= offered()


def test_all_that_a_run_offers_to_a_python_file_is_on_the_page() -> None:
    assert {re.split(r"\W", what)[0] for what, _ in rows(PAGE, "`run`")} == offered()


def used_of(name: str, tree: ast.AST) -> set[str]:
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {each.attr for each in attributes if isinstance(each.value, ast.Name) and each.value.id == name}


def offered() -> set[str]:
    return {name for name in vars(PythonRun) if not name.startswith("_")}
