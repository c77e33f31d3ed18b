"""Workers of Spark that are settled: their collector has little to go through, and no other process is touched."""

from __future__ import annotations

import gc
import subprocess
import sys

from flowmesh.spark.worker_heap import settle

_WORKER = """
import gc, sys
from importlib.machinery import ModuleSpec
import pyspark.sql
from flowmesh.spark.worker_heap import settle
sys.modules["__main__"].__spec__ = ModuleSpec("pyspark.daemon", None)
settle()
first = gc.get_freeze_count()
kept = [[] for _ in range(100)]
settle()
print(first, gc.get_freeze_count())
"""


def test_a_worker_is_settled_once_and_what_comes_later_is_collected() -> None:
    said = subprocess.run([sys.executable, "-c", _WORKER], capture_output=True, text=True, check=True).stdout.split()
    assert int(said[0]) > 10_000
    assert said[1] == said[0]


def test_a_process_that_is_no_worker_of_spark_keeps_its_heap_as_it_is() -> None:
    before = gc.get_freeze_count()
    settle()
    assert gc.get_freeze_count() == before
