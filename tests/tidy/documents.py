"""Rules for the prose: links lead somewhere, commands exist."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tests.tidy.tree import SourceFile

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*$", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
MAKE_COMMAND = re.compile(r"(?:`|^[ ]*(?:\$ )?)make ([a-z]+)\b", re.MULTILINE)
MAKE_TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)


def links(file: SourceFile) -> Iterator[str]:
    """Targets of the links in a page, leaving out code and other sites."""
    prose = CODE_SPAN.sub("", FENCE.sub("", file.text))
    for inline, reference in LINK.findall(prose):
        target = inline or reference
        if not ELSEWHERE.match(target):
            yield target


def linked_paths(file: SourceFile) -> set[PurePosixPath]:
    """What a page links to, as paths from the root; the links of a page at the root need no more than that."""
    return {PurePosixPath(file.path.parent, target.partition("#")[0]) for target in links(file)}


def broken_links(file: SourceFile, root: Path) -> list[str]:
    findings = []
    for target in links(file):
        name, _, anchor = target.partition("#")
        place = root / file.path.parent / name if name else root / file.path
        if not place.exists():
            findings.append(f"{file.path}: {target} is not there")
        elif anchor and place.suffix == ".md" and anchor not in _anchors(place.read_text(encoding="utf-8")):
            findings.append(f"{file.path}: {target} has no such heading")
    return findings


def unknown_make_targets(file: SourceFile, makefile: str) -> list[str]:
    targets = set(MAKE_TARGET.findall(makefile))
    return [
        f"{file.path}: no target for make {name}" for name in MAKE_COMMAND.findall(file.text) if name not in targets
    ]


def _anchors(text: str) -> set[str]:
    titles = HEADING.findall(FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
