"""The runs of pipelines on this machine: one small file for each, replaced as a whole, and a lock for each pipeline.

The lock, not the file, says whether a run is alive: a process that is killed writes nothing, and lets go of its lock.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from flowmesh.base.errors import AlreadyOpen, BadRequest, FlowMeshError
from flowmesh.base.times import to_text

STATE_VARIABLE = "FLOWMESH_STATE"
RUNS_MAX = 20
"""Of each pipeline; older ones are forgotten."""
KILLED = "The process ended without a word: it was killed, or the machine went down."
State = Literal["running", "finished", "failed", "stopped"]
_RUN = re.compile(r"run-([0-9]{19})-[0-9]+\.json")
_TRIES, _PAUSE_S = 10, 0.05
_LOCK = "lock"
_CHECKPOINT = "checkpoint"


class QueryRun(msgspec.Struct, omit_defaults=True):
    """One sink of a run."""

    name: str
    batch: int | None = None
    """The last one that was done."""
    rows_in: int = 0
    rows_out: int = 0
    rows_late: int = 0
    """Left out because they came after their watermark."""
    rows_per_second: float = 0.0
    """Read, in the last batch."""
    lag: int | None = None
    """Records that wait. None: nobody knows, as before the first batch."""
    updated: str | None = None


class PipelineRun(msgspec.Struct):
    name: str
    file: str
    pid: int
    mode: Literal["once", "continuous"]
    state: State
    started: str
    ended: str | None = None
    error: str | None = None
    queries: list[QueryRun] = []

    @property
    def lag(self) -> int | None:
        """Of the query that is furthest behind."""
        return max((each.lag for each in self.queries if each.lag is not None), default=None)


def state_directory(environment: Mapping[str, str]) -> Path:
    """`$FLOWMESH_STATE`, or `flowmesh` below `$XDG_STATE_HOME`, which is `~/.local/state` unless it is set."""
    named = environment.get(STATE_VARIABLE)
    if named:
        return Path(named).absolute()
    base = environment.get("XDG_STATE_HOME") or Path(os.path.expanduser("~")) / ".local" / "state"
    return Path(base) / "flowmesh"


class Registry:
    """`<state>/pipelines/<name>/`: a lock, `run-<started>-<pid>.json` for each run, and the checkpoint."""

    def __init__(self, state: Path) -> None:
        self._directory = state / "pipelines"

    def checkpoint(self, name: str) -> Path:
        return self._directory / name / _CHECKPOINT

    @contextmanager
    def running(self, run: PipelineRun, started_ns: int) -> Iterator[RunFile]:
        """Holds the pipeline for this process. What an earlier run left unsaid is put right first."""
        directory = self._directory / run.name
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (directory / _LOCK).open("a+b") as lock:
            if not _take(lock.fileno()):
                others = [each.pid for each in self.runs(run.name) if each.state == "running"]
                raise AlreadyOpen(
                    f"pipeline {run.name!r} runs already{f', as process {others[0]}' if others else ''}.",
                    field="name",
                    hint="Stop that run first, or give this pipeline another name.",
                )
            for file, earlier in _files(directory):
                if earlier.state == "running":
                    _write(file, _killed(earlier))
            _prune(directory)
            own = RunFile(directory / f"run-{started_ns:019d}-{run.pid}.json", run, lock.fileno())
            own.write()
            yield own

    def runs(self, name: str | None = None) -> list[PipelineRun]:
        """Of one pipeline or of all, the newest first."""
        found: list[tuple[str, PipelineRun]] = []
        with suppress(FileNotFoundError):
            for directory in self._directory.iterdir():
                if name is None or directory.name == name:
                    found += self._runs_in(directory)
        return [run for _, run in sorted(found, key=lambda each: each[0], reverse=True)]

    def _runs_in(self, directory: Path) -> list[tuple[str, PipelineRun]]:
        found = []
        for newest, (file, run) in zip(
            itertools.chain([True], itertools.repeat(False)), _files(directory), strict=False
        ):
            if run.state == "running" and not (newest and _is_held(directory / _LOCK)):
                run = _read(file) or run  # it may have ended just now: it says so before it lets go
                run = _killed(run) if run.state == "running" else run
            found.append((file.name, run))
        return found


class RunFile:
    """The file of the run of this process."""

    def __init__(self, file: Path, run: PipelineRun, lock: int) -> None:
        self._file = file
        self.run = run
        self.lock = lock
        """The descriptor that holds the pipeline. A program that inherits it holds the pipeline, too."""

    def write(self) -> None:
        _write(self._file, self.run)


def _write(file: Path, run: PipelineRun) -> None:
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
        temporary.replace(file)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise FlowMeshError(
            f"{file.parent} cannot be written: {error.strerror or error}.",
            field=STATE_VARIABLE,
            hint=f"Make room there, or let {STATE_VARIABLE} name another directory.",
        ) from error


def _files(directory: Path) -> Iterator[tuple[Path, PipelineRun]]:
    """The newest first. A file that is just being forgotten, or was made by hand, is passed over."""
    with suppress(NotADirectoryError, FileNotFoundError):
        for file in sorted(directory.iterdir(), reverse=True):
            if _RUN.fullmatch(file.name):
                run = _read(file)
                if run is not None:
                    yield file, run


def _read(file: Path) -> PipelineRun | None:
    with suppress(FileNotFoundError, msgspec.DecodeError):
        return msgspec.json.decode(file.read_bytes(), type=PipelineRun)
    return None


def _prune(directory: Path) -> None:
    for file, _ in list(_files(directory))[RUNS_MAX - 1 :]:
        file.unlink(missing_ok=True)


def _killed(run: PipelineRun) -> PipelineRun:
    return msgspec.structs.replace(run, state="stopped", error=KILLED)


def _take(descriptor: int) -> bool:
    """Tried a few times, because a process that only asks who runs holds it for a moment."""
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_PAUSE_S)
    return False


def _is_held(lock: Path) -> bool:
    """Asked with a shared lock, so that those who ask do not stand in each other's way."""
    try:
        with lock.open("rb") as file:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    except FileNotFoundError:
        pass
    return False


def new_run(name: str, file: Path, *, once: bool, now_ns: int) -> PipelineRun:
    if "/" in name or name.startswith("."):
        raise BadRequest(f"{name[:80]!r} is no name of a pipeline.", field="name")
    return PipelineRun(name, str(file), os.getpid(), "once" if once else "continuous", "running", to_text(now_ns))
