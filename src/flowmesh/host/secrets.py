"""Files that hold a secret: readable by their owner alone from their first moment, and durable before anybody counts
on them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_MODE = 0o600


def write_secret(path: Path, text: str) -> None:
    """The whole file or the old one. A file that is there is replaced, so that its mode and its links do not matter."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with suppress(FileNotFoundError):
        os.unlink(temporary)  # of a process that had this number before and was killed here
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
