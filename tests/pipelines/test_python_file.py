"""A pipeline that is a Python file: what it is handed, how it runs, and how its mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowmesh.base.errors import BadRequest, NotFound
from flowmesh.pipelines.python_file import has_function
from tests.pipelines.runs import Pipelines, Row, ordered

pytestmark = pytest.mark.timeout(240)

WHOLE = """
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

FACTOR = 10


def pipeline(spark: SparkSession, run) -> None:
    names = run.table("names", valueSchema="n BIGINT, name STRING").select("n", "name")
    events = run.source("events", valueSchema="n BIGINT", group="python-events")
    said = f.lit(f"{run.name} once={run.once}").alias("said")
    joined = events.join(names, "n").select((events["n"] * FACTOR).alias("n"), "name", said)
    run.sink(joined, "tenfold", valueFormat="json")
    seen = []
    writer = events.select("n").writeStream.foreachBatch(lambda frame, batch: seen.extend(frame.collect()))
    query = run.start(writer, "seen")
    if run.once:
        query.awaitTermination()
        Path(__file__).with_suffix(".seen").write_text(str(len(seen)))
"""
FAILING = """
def pipeline(spark, run):
    dearest = {}
    run.table("events").createOrReplaceTempView("events")
    return dearest["price"]
"""
WITH_TYPES = """
from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass
class Order:
    id: int


def pipeline(spark, run):
    assert spark.createDataFrame([Order(1)]).count() == 1
    sys.exit(CODE)
"""
SCRIPT = """
from pyspark.sql import SparkSession

if __name__ == "__main__":
    spark = SparkSession.getActiveSession()
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    query = rows.writeStream.queryName("own").foreachBatch(lambda frame, batch: frame.count()).start()
    query.awaitTermination()
"""


def written(place: Path, text: str) -> Path:
    place.write_text(text)
    return place


def test_a_function_gets_streams_tables_sinks_and_checkpoints_and_goes_on_where_it_was(
    pipelines: Pipelines, tmp_path: Path
) -> None:
    pipelines.create("names", "events", "tenfold")
    pipelines.send("names", {"n": 1, "name": "one"}, {"n": 2, "name": "two"})
    pipelines.send("events", {"n": 1}, {"n": 3}, {"n": 2})
    file = written(tmp_path / "tenfold-all.py", WHOLE)
    first = pipelines.once(file)
    assert (first.run.state, first.run.mode, first.heard.starts) == ("finished", "once", 1)
    assert {(each.name, each.rows_in, each.lag) for each in first.run.queries} >= {("seen", 3, 0)}
    pipelines.send("events", {"n": 2})
    with pipelines.continuous(file) as going:
        going.until(lambda: len(pipelines.rows("tenfold")) == 3)
        going.until(lambda: pipelines.group("events", "python-events").lag == 0)
    assert going.run.state == "stopped"
    once: list[Row] = [
        {"n": n * 10, "name": name, "said": "tenfold-all once=True"} for n, name in ((1, "one"), (2, "two"))
    ]
    assert pipelines.rows("tenfold") == ordered([*once, once[1] | {"said": "tenfold-all once=False"}])
    assert (tmp_path / "tenfold-all.seen").read_text() == "3"
    place = pipelines.registry.checkpoint("tenfold-all")
    assert {each.name for each in place.iterdir()} == {"tenfold", "seen"}


def test_a_script_is_run_and_its_queries_are_watched_and_stopped(pipelines: Pipelines, tmp_path: Path) -> None:
    with pipelines.continuous(written(tmp_path / "script.py", SCRIPT)) as going:
        going.until(lambda: going.query("own").rows_in >= 5)
    assert (going.run.state, going.error) == ("stopped", None)


def test_a_mistake_in_the_file_is_told_with_its_line(pipelines: Pipelines, tmp_path: Path) -> None:
    error, going = pipelines.failing(written(tmp_path / "failing.py", FAILING))
    assert str(error) == "failing.py: KeyError: 'price' (failing.py, line 5)"
    assert (going.run.state, going.run.error) == ("failed", str(error))
    text = FAILING.replace("return dearest", "run.start(run.source('none-such').writeStream, 'x/y')")
    error, _ = pipelines.failing(written(tmp_path / "failing.py", text))
    assert str(error).startswith("failing.py: name 'x/y' is not a name.")
    assert str(error).endswith("(failing.py, line 5)")


def test_a_file_may_have_types_of_its_own_and_end_by_itself(pipelines: Pipelines, tmp_path: Path) -> None:
    done = pipelines.once(written(tmp_path / "typed.py", WITH_TYPES.replace("CODE", "0")))
    assert (done.run.state, done.run.error) == ("finished", None)
    error, going = pipelines.failing(written(tmp_path / "failing.py", WITH_TYPES.replace("CODE", "'no orders'")))
    assert str(error) == going.run.error == "failing.py: it exited with no orders"
    assert going.run.state == "failed"


def test_what_is_no_python_is_refused_before_anything_runs(tmp_path: Path) -> None:
    assert has_function(written(tmp_path / "whole.py", WHOLE))
    assert not has_function(written(tmp_path / "script.py", SCRIPT))
    with pytest.raises(BadRequest, match=r"is not Python, line 2"):
        has_function(written(tmp_path / "broken.py", "a = 1\ndef b(:\n"))
    with pytest.raises(NotFound, match=r"there is no file"):
        has_function(tmp_path / "absent.py")
