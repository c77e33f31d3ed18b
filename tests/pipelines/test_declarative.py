"""Declarative pipelines of Spark: their own file, run by our command with what they need, again and again."""

from __future__ import annotations

import os
import shlex
import threading
from pathlib import Path
from typing import Any

import pytest

from flowmesh.base.errors import BadRequest
from flowmesh.pipelines.declarative import (
    command,
    environment_of,
    is_declarative,
    parse_declarative,
    run_declarative,
    settings_of,
)
from flowmesh.pipelines.failures import PipelineFailed
from flowmesh.testing import NodeProcess
from tests.pipelines.commands import environment, events_of, flowmesh
from tests.pipelines.runs import Row, files_of, ordered, send

_FILE = """
name: Shop totals
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""
_TRANSFORMATIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
TYPED = {"valueSchema": "category STRING, cents BIGINT", "startingOffsets": "earliest"}


@dp.table
def kept():
    return spark.readStream.format("flowmesh").options(**TYPED).load("sold").select("category", "cents")


@dp.materialized_view
def totals():
    return spark.read.table("kept").groupBy("category").agg(f.sum("cents").alias("cents"))
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "shop.py").write_text(_TRANSFORMATIONS)
    file = tmp_path / "spark-pipeline.yml"
    file.write_text(_FILE.replace("{storage}", (tmp_path / "storage").as_uri()))
    return file


@pytest.mark.timeout(400)
def test_tables_are_made_of_a_stream_and_the_second_run_adds_what_came_since(
    node: NodeProcess, shop: Path, tmp_path: Path
) -> None:
    state, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    elsewhere.mkdir()
    variables = environment(node, state)
    rows: list[Row] = [
        {"category": category, "cents": cents} for category, cents in [("tea", 3), ("jam", 4), ("tea", 5)]
    ]
    send(node, "sold", *rows, create=True)
    tables = state / "pipelines" / "shop-totals" / "checkpoint" / "warehouse"
    for _ in range(2):
        done = flowmesh(
            "pipeline", "run", shop, "--json", "--master", "local[2]", variables=variables, directory=elsewhere
        )
        assert done.returncode == 0, done.stdout + done.stderr
        events = events_of(done.stdout)
        assert (events[0]["event"], events[-1]["event"], events[-1]["state"]) == ("started", "ended", "finished")
        assert files_of(tables / "kept") == ordered(rows)
        assert node.token not in done.stdout + done.stderr
        rows.append({"category": "jam", "cents": 6})
        send(node, "sold", rows[-1])
    assert files_of(tables / "totals") == [{"category": "jam", "cents": 10}, {"category": "tea", "cents": 8}]
    assert list(elsewhere.iterdir()) == [], "nothing is left where it was started"


def test_a_declarative_file_is_known_by_its_name_or_by_its_fields() -> None:
    assert is_declarative(Path("spark-pipeline.yml"), None)
    assert is_declarative(Path("shop.yaml"), {"name": "x", "libraries": []})
    assert not is_declarative(Path("shop.yaml"), {"name": "x", "sources": {}})


@pytest.mark.parametrize(
    "found, field", [([], "name"), ({"name": 5}, "name"), ({"name": "x", "configuration": 1}, "configuration")]
)
def test_what_is_needed_of_the_file_is_checked(found: Any, field: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_declarative(found)
    assert caught.value.field == field


def test_what_the_file_and_the_command_say_wins_over_our_settings(tmp_path: Path) -> None:
    spec = parse_declarative({"name": "x", "configuration": {"spark.sql.session.timeZone": "Asia/Tokyo"}})
    settings = settings_of(spec, tmp_path / "a place", {"spark.ui.enabled": "true"})
    assert settings["spark.ui.enabled"] == "true"
    assert "spark.sql.session.timeZone" not in settings
    made = environment_of({"PATH": os.environ["PATH"], "PYSPARK_SUBMIT_ARGS": "--jars x pyspark-shell"}, settings)
    arguments = shlex.split(made["PYSPARK_SUBMIT_ARGS"])
    assert f"spark.sql.warehouse.dir={tmp_path}/a place/warehouse" in arguments
    assert arguments[-3:] == ["--jars", "x", "pyspark-shell"]
    assert command(tmp_path / "x.yml", None, {})[-2:] == ["--remote", "local[*]"]
    assert command(tmp_path / "x.yml", "local[3]", {"a": "b"})[-4:] == ["--remote", "local[3]", "--conf", "a=b"]


def test_the_last_error_that_is_no_place_in_a_program_is_the_reason() -> None:
    heard: list[str] = []
    lines = ["all well", "pyspark.errors.AnalysisException: [TABLE_NOT_FOUND] no table", "  at java.Error(x)", "bye"]
    said = "; ".join(f"echo '{line}'" for line in lines)
    with pytest.raises(PipelineFailed, match=r"^\[TABLE_NOT_FOUND\] no table$"):
        run_declarative(["sh", "-c", f"{said}; exit 1"], {}, heard.append, threading.Event())
    assert heard == lines
    with pytest.raises(PipelineFailed, match=r"ended with status 7"):
        run_declarative(["sh", "-c", "exit 7"], {}, heard.append, threading.Event())


def test_a_run_that_is_stopped_ends_the_program_and_what_it_started() -> None:
    stop = threading.Event()
    state = run_declarative(["sh", "-c", "echo on; sleep 1000"], {}, lambda line: stop.set(), stop)
    assert state == "stopped"
