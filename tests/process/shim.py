"""The compiled `faultshim.c`, and the environment that tells it which system call shall fail."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("faultshim.c")


def compiled(directory: Path) -> Path:
    """The shim as a shared object in `directory`; skips the test, saying why, where it cannot be made."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if os.uname().sysname != "Linux" or compiler is None:
        pytest.skip("the fault shim needs Linux and a C compiler (cc); there is none here")
    library = directory / "faultshim.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(SOURCE), "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"the fault shim does not compile here: {made.stderr.strip()[-300:]}")
    return library


def environment(
    library: Path, log: Path, *, call: str, path: str, nth: int = 1, count: int = 1, errno: int = 0, short: int = 0
) -> dict[str, str]:
    return {
        "LD_PRELOAD": str(library),
        "FAULT_LOG": str(log),
        "FAULT_CALL": call,
        "FAULT_PATH": path,
        "FAULT_NTH": str(nth),
        "FAULT_COUNT": str(count),
        "FAULT_ERRNO": str(errno),
        "FAULT_SHORT": str(short),
    }


def fired(log: Path) -> list[str]:
    """What the shim did: one line for each call that it did not let through."""
    return log.read_text().splitlines() if log.exists() else []
