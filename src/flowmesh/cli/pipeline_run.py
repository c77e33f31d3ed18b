"""The work of `pipeline run`: which kind of file it is, the session it gets, and what signals do to it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple

import msgspec

from flowmesh.base.errors import FlowMeshError
from flowmesh.base.names import checked_name
from flowmesh.cli import targets
from flowmesh.cli.connection_options import Asked
from flowmesh.cli.pipeline_audience import audience_for
from flowmesh.cli.spark_options import session_for
from flowmesh.pipelines.declarative import (
    DeclarativeSpec,
    command,
    environment_of,
    is_declarative,
    parse_declarative,
    run_declarative,
    settings_of,
)
from flowmesh.pipelines.python_file import has_function, run_python
from flowmesh.pipelines.registry import Registry, State, new_run, state_directory
from flowmesh.pipelines.running import Run, keep
from flowmesh.pipelines.spec import PipelineSpec
from flowmesh.pipelines.spec_file import load, parse
from flowmesh.pipelines.target import NodeTarget
from flowmesh.pipelines.views import option_texts
from flowmesh.pipelines.yaml_run import placed, run_yaml, uses_node

QUIET = {"spark.log.level": "OFF"}
"""What goes wrong is said once, by the run, and not by Java in pages."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Opened(NamedTuple):
    """A file that was read and found right."""

    file: Path
    kind: Literal["YAML", "Python", "declarative"]
    name: str
    spec: PipelineSpec | DeclarativeSpec | None = None


def opened(file: Path, name: str | None) -> Opened:
    whole = file.absolute()
    if name is not None:
        checked_name(name, "name")
    if file.suffix == ".py":
        has_function(whole)
        return Opened(whole, "Python", name or _name_like(file.stem))
    found = load(file)
    if is_declarative(file, found):
        declarative = parse_declarative(found)
        return Opened(whole, "declarative", name or _name_like(declarative.name), declarative)
    try:
        spec = placed(parse(found, os.environ), whole.parent)
    except FlowMeshError as error:
        raise type(error)(f"{file}: {error.message}", field=error.field, hint=error.hint) from None
    spec = msgspec.structs.replace(spec, name=name or spec.name)
    return Opened(whole, "YAML", spec.name, spec)


def _name_like(text: str) -> str:
    plain = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in text.lower())
    return plain.strip("-")[:64].strip("-") or "pipeline"


def run_opened(
    found: Opened, asked: Asked, *, once: bool, master: str | None, conf: tuple[str, ...], as_json: bool
) -> None:
    registry, now_ns = Registry(state_directory(os.environ)), time.time_ns()
    own = new_run(found.name, found.file, once=once, now_ns=now_ns)
    spec = found.spec
    checkpoint = spec.checkpoint if isinstance(spec, PipelineSpec) else None
    place = checkpoint or str(registry.checkpoint(found.name))
    target = _target(found, asked)
    with audience_for(as_json=as_json) as audience, registry.running(own, now_ns) as file, stopping() as stop:
        run = Run(file, target, place, once, audience, stop)
        try:
            keep(file, lambda: _work(found, run, master, conf))
        finally:
            audience.ended(own)


def _target(found: Opened, asked: Asked) -> NodeTarget | None:
    """Only a file that says all there is to say can do without a node."""
    needs = isinstance(found.spec, PipelineSpec) and uses_node(found.spec)
    try:
        context = targets.find(asked)
    except FlowMeshError:
        if needs or asked.url is not None or asked.context is not None:
            raise
        return None
    ca_file = None if context.ca_file is None else str(context.ca_file)
    return NodeTarget(context.url, context.token, ca_file, context.tenant, context.namespace)


def _work(found: Opened, run: Run, master: str | None, conf: tuple[str, ...]) -> State:
    variables = {} if run.target is None else run.target.environment()
    if isinstance(found.spec, DeclarativeSpec):
        return _declarative(found.spec, found.file, run, master, conf, variables)
    os.environ.update(variables)  # for code in the file that names no node
    name, spec, settings = f"flowmesh {found.name}", found.spec, tuple(f"{key}={value}" for key, value in QUIET.items())
    # Spark puts a handler of its own in the place of the one for SIGINT.
    if isinstance(spec, PipelineSpec):
        spec = msgspec.structs.replace(spec, spark={**spec.spark, **_settings(conf)})
        settings += tuple(f"{key}={value}" for key, value in option_texts(spec.spark).items())
        with session_for(name, master or spec.master, (*settings, *conf)) as spark, handling(run.stop):
            return run_yaml(spark, spec, run)
    # What the code in the file prints where Spark runs it is for whoever wrote it.
    with session_for(name, master, (*settings, *conf), quiet=False) as spark, handling(run.stop):
        return run_python(spark, found.file, run)


def _settings(conf: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, _, value in (each.partition("=") for each in conf)}


def _declarative(
    spec: DeclarativeSpec,
    file: Path,
    run: Run,
    master: str | None,
    conf: tuple[str, ...],
    variables: Mapping[str, str],
) -> State:
    place = Path(run.checkpoint)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    given = _settings(conf)
    arguments = command(file, master, given)
    environment = environment_of({**os.environ, **variables}, settings_of(spec, place, given))
    run.audience.started(run.file.run)
    return run_declarative(arguments, environment, run.audience.said, run.stop, run.file.lock)


# --- signals ------------------------------------------------------------------------------------------------------


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set. A second one ends the process at once; a run goes on where it was."""
    stop = threading.Event()
    with handling(stop):
        yield stop


@contextmanager
def handling(stop: threading.Event) -> Iterator[None]:
    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    before: dict[int, Callable[..., Any] | int | None] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
