"""House rules as functions: a file in, a list of findings out. What they run over is decided by the tests."""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.tidy.tree import SourceFile

CORE_PACKAGES = frozenset({"base", "ports", "format", "log"})
FUNCTION_LINES_MAX = 60

VAGUE_NAME = re.compile(r"(?:^|_)(?:utils?|helpers?|common|misc|managers?)(?:_|$)")
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b")

# Each pattern is written so that it does not match its own source.
NOT_FOR_THE_REPOSITORY = {
    "machine path": re.compile(r"(?<![\w.}])/(?:[w]ork|[r]oot|[h]ome|Users)/"),
    "registry host": re.compile(r"pypi[.]org|pythonhosted[.]org|crates[.]io|npmjs[.](?:org|com)|proxy[.]golang[.]"),
    "index address": re.compile(r"--(?:extra-)?index-url|index[_-]url\s*[=:]|--[f]ind-links|--[t]rusted-host"),
    "private key": re.compile(r"BEGIN [A-Z ]*PRIVATE[ ]KEY"),
    "access key": re.compile(r"\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}\b|\bxox[baprs]-[A-Za-z0-9-]{10}"),
    "password in an address": re.compile(r"\w+://[^\s/:@{<]+:[^\s/:@{<]+@"),
}

# Time, chance, threads and sockets are contracts of import-linter; these are the other ways out of a core.
WORLD_BUILTINS = frozenset({"open", "input", "print", "eval", "exec", "breakpoint"})
WORLD_IMPORTS = frozenset({"io", "mmap", "os", "pathlib", "random", "shutil", "tempfile", "time", "uuid"})


def too_long(file: SourceFile, lines_max: int) -> list[str]:
    count = file.text.count("\n")
    return [f"{file.path}: {count} lines, at most {lines_max}"] if count > lines_max else []


def long_functions(file: SourceFile) -> list[str]:
    findings = []
    for node in ast.walk(file.syntax):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            if count > FUNCTION_LINES_MAX:
                findings.append(
                    f"{file.path}:{node.lineno}: {node.name} has {count} lines, at most {FUNCTION_LINES_MAX}"
                )
    return findings


def vague_names(file: SourceFile) -> list[str]:
    parts = (*file.path.parts[:-1], file.path.stem)
    return [f"{file.path}: '{part}' does not say what it is" for part in parts if VAGUE_NAME.search(part)]


def missing_docstring(file: SourceFile) -> list[str]:
    return [] if ast.get_docstring(file.syntax) else [f"{file.path}: the module does not say what lives in it"]


def unfinished(file: SourceFile) -> list[str]:
    return [f"{file.path}:{line}: {match}" for line, match in _matches(UNFINISHED, file.text)]


def not_for_the_repository(file: SourceFile) -> list[str]:
    return [
        f"{file.path}:{line}: {what}: {match}"
        for what, pattern in NOT_FOR_THE_REPOSITORY.items()
        for line, match in _matches(pattern, file.text)
    ]


def calls(file: SourceFile, names: frozenset[str]) -> list[str]:
    """Calls of the plain names; methods of the same name are somebody else's."""
    return [
        f"{file.path}:{node.lineno}: calls {node.func.id}()"
        for node in ast.walk(file.syntax)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    ]


def imports(file: SourceFile, names: frozenset[str]) -> list[str]:
    return [f"{file.path}:{line}: imports {name}" for line, name in _imported(file) if name.split(".")[0] in names]


def beyond_the_standard_library(file: SourceFile) -> list[str]:
    allowed = sys.stdlib_module_names | {"flowmesh"}
    return [
        f"{file.path}:{line}: imports {name}" for line, name in _imported(file) if name.split(".")[0] not in allowed
    ]


def repeated_classes(files: Iterable[SourceFile]) -> list[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for file in files:
        for node in ast.walk(file.syntax):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{file.path}:{node.lineno}")
    return [f"class {name}: {', '.join(where)}" for name, where in sorted(places.items()) if len(where) > 1]


def _imported(file: SourceFile) -> Iterator[tuple[int, str]]:
    for node in ast.walk(file.syntax):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, str]]:
    for match in pattern.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group()
