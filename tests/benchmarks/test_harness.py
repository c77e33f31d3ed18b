"""Every benchmark runs, at sizes that prove nothing about speed: each row is there, and its ratio is a number."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.catalogue import BENCHMARKS, need_bytes
from benchmarks.harness import Benchmark, Result, Row, Samples, Unit, alternate
from benchmarks.place import Place, Sizes, TooLittleSpace, temporary_place
from benchmarks.table import HEADINGS, cells, show, show_json
from flowmesh.base.limits import GIB, MIB

TINY = Sizes(
    rounds=1, log_bytes=2 * MIB, memory_bytes=4 * MIB, blocks=1, commits=1, appends=2, repeats=1,
    node_appends=2_000, node_records=20_000, node_posts=50, node_seconds=0.2,
)  # fmt: skip
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
DOCUMENTED_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with temporary_place(tmp_path, TINY) as made:
        yield made


def result(subject: list[float], reference: list[float], at_least: float | None = None) -> Result:
    return Result(Row("this", "that", at_least), Samples(subject, reference), Unit.OPERATIONS)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_each_benchmark_gives_a_positive_ratio_for_each_of_its_rows(benchmark: Benchmark, place: Place) -> None:
    results = benchmark.run(place)
    assert [result.row for result in results] == list(benchmark.rows)
    assert all(math.isfinite(result.ratio) and result.ratio > 0 for result in results)


def test_the_rows_are_the_documented_ones() -> None:
    documented = DOCUMENTED_ROW.findall(DOCUMENT.read_text(encoding="utf-8").partition("## What each row means")[0])
    declared = [(row.work, row.against, row.bound) for benchmark in BENCHMARKS for row in benchmark.rows]
    assert [tuple(map(str.strip, row)) for row in documented if row[0] not in ("work", "---")] == declared


def test_every_benchmark_has_its_name_on_the_page() -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    assert [benchmark.name for benchmark in BENCHMARKS if f"`{benchmark.name}`" not in page] == []


def test_subject_and_reference_take_turns_after_one_warm_up_each() -> None:
    turns: list[str] = []

    def side(name: str, seconds: float) -> float:
        turns.append(name)
        return seconds

    samples = alternate(3, lambda: side("A", 1.0), lambda: side("B", 2.0))
    assert "".join(turns) == "BA" + "AB" + "BA" + "AB"
    assert samples == Samples([1.0] * 3, [2.0] * 3)


def test_a_ratio_is_the_median_of_neighbours_not_of_all() -> None:
    assert result([1.0, 10.0, 1.0], [2.0, 20.0, 9.0]).ratio == 2.0


@pytest.mark.parametrize("at_least, verdict", [(None, "printed"), (0.5, "ok"), (0.6, "below")])
def test_the_verdict_says_whether_the_bound_was_met(at_least: float | None, verdict: str) -> None:
    assert result([2.0], [1.0], at_least).verdict == verdict


def test_the_table_has_a_cell_for_each_heading_and_is_plain_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured = result([1.0], [2.0])
    assert len(cells(measured)) == len(HEADINGS)
    show([measured])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert all(heading in printed for heading in HEADINGS)


def test_json_keeps_every_sample(capsys: pytest.CaptureFixture[str]) -> None:
    show_json([result([1.0, 3.0], [2.0, 2.0])])
    (document,) = json.loads(capsys.readouterr().out)["results"]
    assert (document["subject"], document["reference"], document["runs"]) == ([1.0, 3.0], [2.0, 2.0], 2)


def test_too_little_space_is_said_before_anything_is_written(place: Place) -> None:
    with pytest.raises(TooLittleSpace, match=r"GiB free; this run needs"):
        place.require(2**20 * GIB)
    assert list(place.directory.iterdir()) == []


def test_what_must_be_free_covers_the_greatest_benchmark() -> None:
    assert need_bytes(list(BENCHMARKS), TINY) >= max(benchmark.disk_bytes(TINY) for benchmark in BENCHMARKS)


def test_one_benchmark_by_name_leaves_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "encode", "--quick", "--json", "--dir", str(tmp_path)]) == 0
    assert len(json.loads(capsys.readouterr().out)["results"]) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(place: Place) -> list[Result]:
        (place.directory / "half").write_bytes(b"written")
        raise KeyboardInterrupt

    stopped = Benchmark("stopped", (), interrupted, lambda _sizes: 0)
    monkeypatch.setattr("benchmarks.__main__.BENCHMARKS", (stopped,))
    assert main(["--quick", "--dir", str(tmp_path)]) == 130
    assert list(tmp_path.iterdir()) == []
