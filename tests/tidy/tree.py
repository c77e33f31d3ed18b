"""The files that git tracks or would track, read once. No rule lives here."""

import ast
import subprocess
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class SourceFile:
    """A text file: its path from the root of the repository, and what it says."""

    path: PurePosixPath
    text: str

    @cached_property
    def syntax(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @property
    def package(self) -> str:
        """`log` for src/flowmesh/log/x.py, `assemble` for src/flowmesh/assemble.py, empty outside of src."""
        parts = self.path.with_suffix("").parts
        return parts[2] if parts[:2] == ("src", "flowmesh") else ""


@cache
def tracked_files() -> tuple[SourceFile, ...]:
    """Files not yet added count too: a finding should come before the commit."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found = []
    for name in sorted(set(filter(None, listing.split("\0")))):
        path = ROOT / name
        data = path.read_bytes() if path.is_file() else b"\0"
        if b"\0" not in data:  # a file of bytes, or one that was removed and not yet staged
            found.append(SourceFile(PurePosixPath(name), data.decode("utf-8", "replace")))
    return tuple(found)


def python_files(*tops: str) -> list[SourceFile]:
    """Python files below the given top-level folders."""
    return [file for file in tracked_files() if file.path.suffix == ".py" and file.path.parts[0] in tops]


def markdown_files() -> list[SourceFile]:
    return [file for file in tracked_files() if file.path.suffix == ".md"]
