"""The prose tells the truth about the repository, as far as a machine can tell."""

import pytest

from tests.tidy import documents
from tests.tidy.tree import ROOT, SourceFile, markdown_files

INDEX_PAGES = ("ARCHITECTURE.md", "docs/README.md", "docs/decisions/README.md")
INDEXED = ("docs/formats", "docs/decisions")


def page_name(file: SourceFile) -> str:
    return str(file.path)


@pytest.mark.parametrize("page", markdown_files(), ids=page_name)
def test_links_lead_somewhere(page: SourceFile) -> None:
    assert documents.broken_links(page, ROOT) == []


@pytest.mark.parametrize("page", markdown_files(), ids=page_name)
def test_make_commands_have_targets(page: SourceFile) -> None:
    assert documents.unknown_make_targets(page, (ROOT / "Makefile").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("folder", INDEXED)
def test_every_page_is_reached_from_an_index(folder: str) -> None:
    indexes = [page for page in markdown_files() if str(page.path) in INDEX_PAGES]
    assert len(indexes) == len(INDEX_PAGES)
    reached = set().union(*(documents.linked_paths(page) for page in indexes))
    pages = {page.path for page in markdown_files() if str(page.path.parent) == folder}
    assert pages - reached == set()
