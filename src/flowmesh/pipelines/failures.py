"""What went wrong, in one line: found in the pages that Spark, Java and a worker's traceback make of it."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from flowmesh.base.errors import FlowMeshError

REASON_CHARS_MAX = 1_000
_OURS = re.compile(r"\[FLOWMESH_[A-Z_]+\] [^\n]+")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] [^\n]+")
_WRAPPERS = ("STREAM_FAILED", "FAILED_EXECUTE_UDF", "FOREACH_BATCH_USER_FUNCTION_ERROR", "PYTHON_DATA_SOURCE_ERROR")
_JAVA = re.compile(r"^(?:\s*Caused by: )?(?:[a-z][\w]*\.)+[A-Z]\w*(?:Exception|Error): ")


class PipelineFailed(FlowMeshError):
    """A run ended by an error. The message says what it was, in one line."""


def reason_of(error: BaseException) -> str:
    """FlowMesh's own words where there are some, else Spark's condition, else the first line that says something."""
    if isinstance(error, FlowMeshError):
        return str(error)
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return _short(ours[0])
    for found in _CONDITION.finditer(text):
        if not found[1].startswith(_WRAPPERS) and not found[1].startswith("PYTHON_"):
            return _short(found[0])
    return _short(_plain(text) or type(error).__name__)


def _plain(text: str) -> str:
    """The last line of a traceback is the one with the error; of other texts it is the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if line.startswith("Traceback (most recent call last)"):
            after = [each for each in lines[number + 1 :] if re.match(r"[\w.]+(?:Error|Exception|Interrupt)?: ", each)]
            if after:
                return after[0]
    return _JAVA.sub("", lines[0]) if lines else ""


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= REASON_CHARS_MAX else f"{text[:REASON_CHARS_MAX]}…"


def reason_in_file(error: BaseException, file: Path) -> str:
    """For an error in a user's Python file: with the line of the file that led to it."""
    line = 0
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename) == file:
            line = frame.lineno or 0
    kind = "" if isinstance(error, FlowMeshError) else f"{type(error).__name__}: "
    where = f" ({file.name}, line {line})" if line else ""
    return f"{kind}{reason_of(error)}{where}"
