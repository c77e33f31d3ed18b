"""Spark Declarative Pipelines: run by Spark's own program, with the settings that they need beside FlowMesh."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from flowmesh.base.errors import BadRequest
from flowmesh.pipelines.failures import PipelineFailed, reason_of
from flowmesh.pipelines.registry import State
from flowmesh.spark.java import java_home
from flowmesh.spark.sessions import DEFAULT_MASTER

FILE_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
_NEEDED = ("grpc", "pandas", "zstandard")
_OWN_FIELDS = frozenset({"storage", "libraries"})
_ERROR = re.compile(r"(?:Error|Exception)\b|\[[A-Z][A-Z0-9_.]+\] ")
_KEPT_LINES = 200
_ENDING_S = 30.0


class DeclarativeSpec(NamedTuple):
    name: str
    configuration: Mapping[str, str]


def is_declarative(file: Path, found: Any) -> bool:
    """By its name, or by fields that only such a file has."""
    return file.name in FILE_NAMES or (isinstance(found, dict) and len(_OWN_FIELDS & found.keys()) > 0)


def parse_declarative(found: Any) -> DeclarativeSpec:
    """Only what is needed here; Spark checks the rest, and knows better."""
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise BadRequest("name: it is missing.", field="name", hint="A declarative pipeline has a name and a storage.")
    configuration = found.get("configuration") or {}
    if not isinstance(configuration, dict):
        raise BadRequest("configuration: this has to be entries, one 'name: value' a line.", field="configuration")
    return DeclarativeSpec(found["name"], {str(name): str(value) for name, value in configuration.items()})


def command(file: Path, master: str | None, conf: Mapping[str, str]) -> list[str]:
    """It runs over Spark Connect, whose server it starts in the same process: `--remote` is the master of that."""
    settings = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    program = str(_spark_home() / "bin" / "spark-pipelines")
    return [program, "run", "--spec", str(file), "--remote", master or DEFAULT_MASTER, *settings]


def settings_of(spec: DeclarativeSpec, place: Path, conf: Mapping[str, str]) -> dict[str, str]:
    """`place` takes the catalog and the tables, which Spark else leaves wherever it is started."""
    wanted = {
        # Without a catalog that lasts, the second run fails on the tables of the first.
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={place / 'metastore'};create=true",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": shlex.quote(f"-Dderby.stream.error.file={place / 'derby.log'}"),
    }
    return {name: value for name, value in wanted.items() if name not in spec.configuration} | dict(conf)


def environment_of(given: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """With the settings of the server: those that are arguments PySpark drops, but for the last few."""
    submitted = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    return {
        **given,
        "PYSPARK_SUBMIT_ARGS": f"{shlex.join(submitted)} {given.get('PYSPARK_SUBMIT_ARGS', 'pyspark-shell')}",
        # Else it takes the address of a master for that of a server.
        "SPARK_API_MODE": "connect",
        "SPARK_HOME": str(_spark_home()),
        "JAVA_HOME": str(java_home(given)),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": given.get("SPARK_LOCAL_IP", "127.0.0.1"),
    }


def run_declarative(
    arguments: list[str],
    environment: Mapping[str, str],
    said: Callable[[str], None],
    stop: threading.Event,
    lock: int | None = None,
) -> State:
    """Until it has ended. `said` is told each line that Spark says.

    `lock` is the descriptor of the pipeline's lock: should this process be killed, no second run begins beside Spark.
    """
    lines: list[str] = []
    with subprocess.Popen(
        arguments,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        pass_fds=() if lock is None else (lock,),
    ) as process:
        ending = threading.Thread(target=_end_on, args=[process, stop], daemon=True)
        ending.start()
        assert process.stdout is not None
        for line in process.stdout:
            lines = [*lines[-_KEPT_LINES:], line.rstrip()]
            said(line.rstrip())
        status = process.wait()
    if stop.is_set():
        return "stopped"
    if status != 0:
        raise PipelineFailed(_reason(lines) or f"spark-pipelines ended with status {status}.")
    return "finished"


def _end_on(process: subprocess.Popen[str], stop: threading.Event) -> None:
    while process.poll() is None:
        if stop.wait(0.2):
            os.killpg(process.pid, 15)
            try:
                process.wait(_ENDING_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
            return


def _reason(lines: list[str]) -> str | None:
    """The last line that names an error, but not a place in a program."""
    for line in reversed(lines):
        if _ERROR.search(line) and not line.lstrip().startswith(("at ", "File ", "JVM stacktrace")):
            return reason_of(Exception(line))
    return None


def _spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if spec is None or spec.origin is None or missing:
        raise BadRequest(
            f"declarative pipelines need {', '.join(missing) or 'pyspark'}, which is not installed.",
            hint="Install 'flowmesh[pipelines]'.",
        )
    return Path(spec.origin).parent
