"""Tables of the reference pages, as rows."""

from __future__ import annotations

import re

from tests.tidy.tree import ROOT


def rows(page: str, first_title: str) -> list[list[str]]:
    """The rows of the table whose first column has that title, without back-quotes around whole cells."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    table = re.search(rf"^\| {re.escape(first_title)} \|.*\n\|[ |-]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table is not None, f"{page} has no table that begins with {first_title!r}"
    cells = [line.strip().strip("|").split("|") for line in table[1].splitlines()]
    return [[_bare(cell) for cell in row] for row in cells]


def _bare(cell: str) -> str:
    text = cell.strip()
    return text[1:-1] if text.startswith("`") and text.endswith("`") and text.count("`") == 2 else text
