"""How the node's log looks: plain lines or JSON lines on standard error."""

from __future__ import annotations

import json
import logging
import sys
from typing import TextIO

from flowmesh.base.times import to_text

ROOT = "flowmesh"
_QUIET = ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")
"""Other packages' loggers: heard from warnings on, through our handler."""


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = f"{_time(record)} {record.levelname.lower():7} {record.name}: {record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonLines(logging.Formatter):
    """One object a line. A record that brings `fields` is shown by them instead of by its text."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name}
        fields = getattr(record, "fields", None)
        line |= fields if isinstance(fields, dict) else {"message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, separators=(",", ":"), default=str)


def set_up(level: str, style: str, stream: TextIO | None = None) -> None:
    """Sends everything to `stream`, standard error by default. May be called again: the last call counts."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else TextLines())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(ROOT).setLevel(level.upper())
    for name in _QUIET:
        other = logging.getLogger(name)
        other.handlers.clear()
        other.propagate = True
        other.setLevel(logging.WARNING)


def _time(record: logging.LogRecord) -> str:
    return to_text(int(record.created * 1e9))
