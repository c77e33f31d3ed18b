"""Pipelines of YAML, run with Spark against a node: windows, sinks, dead letters, batches, how they fail and stop."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowmesh.base.times import to_text
from tests.pipelines.runs import Pipelines, Row, files_of, ordered

pytestmark = pytest.mark.timeout(240)

WINDOWS = """
name: windows
create_streams: true
spark: {spark.sql.streaming.noDataMicroBatches.enabled: true}
sources:
  orders:
    stream: orders
    schema: "category STRING, cents BIGINT, at TIMESTAMP"
    watermark: {column: at, delay: 30s}
    hold: 1h
steps:
  - name: revenue
    window: {from: orders, size: 1m, by: [category], select: {cents: sum(cents), orders: count(*)}}
sinks:
  - {from: revenue, stream: revenue, key: category}
"""
COPIES = """
name: copies
create_streams: true
sources:
  numbers: {stream: numbers, schema: "n BIGINT"}
steps:
  - {name: plain, sql: SELECT n FROM numbers}
  - {name: doubled, sql: SELECT n * 2 AS twice FROM plain}
sinks:
  - {from: plain, stream: numbers-copied}
  - {from: doubled, parquet: doubled}
  - {from: doubled, console: true}
"""


def at(text: str) -> str:
    return f"2026-01-01T{text}Z"


def order(category: str, cents: int, time_of_day: str) -> Row:
    return {"category": category, "cents": cents, "at": at(time_of_day)}


def window(start: str, end: str, category: str, cents: int, orders: int) -> Row:
    begin = {"window_start": at(f"{start}:00"), "window_end": at(f"{end}:00")}
    return {**begin, "category": category, "cents": cents, "orders": orders}


def test_a_window_is_written_once_when_it_is_closed_and_rows_too_late_for_it_are_counted(pipelines: Pipelines) -> None:
    pipelines.create("orders", partitions=2)
    pipelines.send("orders", order("tea", 5, "08:00:10"), order("tea", 7, "08:00:50"), order("jam", 1, "08:00:20"))
    pipelines.send("orders", order("tea", 9, "08:02:00"), partition=1)
    first = pipelines.once(WINDOWS)
    closed = [window("08:00", "08:01", "jam", 1, 1), window("08:00", "08:01", "tea", 12, 2)]
    assert pipelines.rows("revenue") == ordered(closed)
    (query,) = first.run.queries
    assert (query.rows_in, query.rows_out, query.rows_late, query.lag) == (4, 2, 0, 0)

    pipelines.send("orders", order("tea", 100, "08:00:30"), order("jam", 100, "08:00:31"), order("jam", 2, "08:02:30"))
    pipelines.send("orders", order("tea", 1, "09:00:00"))
    second = pipelines.once(WINDOWS)
    closed += [window("08:02", "08:03", "jam", 2, 1), window("08:02", "08:03", "tea", 9, 1)]
    assert pipelines.rows("revenue") == ordered(closed)
    assert {record.key for record in pipelines.records("revenue")} == {b"tea", b"jam"}
    (query,) = second.run.queries
    assert (query.rows_in, query.rows_out, query.rows_late, query.lag) == (4, 2, 2, 0)
    assert pipelines.remembered("windows") == second.run
    assert (second.run.state, second.run.error) == ("finished", None)
    group = pipelines.group("orders", "windows")
    assert (group.kind, group.lag, group.hold_s) == ("spark", 0, 3600)


def test_each_row_is_once_in_every_sink_also_when_batches_are_repeated(pipelines: Pipelines, tmp_path: Path) -> None:
    pipelines.create("numbers", partitions=2)
    numbers: list[Row] = [{"n": n} for n in range(50)]
    pipelines.send("numbers", *numbers[:30])
    pipelines.send("numbers", *numbers[30:40], partition=1)
    first = pipelines.once(COPIES)
    assert (first.run.state, len(first.run.queries), first.heard.starts) == ("finished", 3, 1)
    assert {(each.name, each.rows_in, each.rows_out) for each in first.run.queries} == {
        ("plain-stream", 40, 40), ("doubled-parquet", 40, 40), ("doubled-console", 40, 40),
    }  # fmt: skip
    assert first.heard.more == {"doubled-console"}
    for query in ("plain-stream", "doubled-parquet"):
        pipelines.forget_last_batch("copies", query)
    pipelines.send("numbers", *numbers[40:])
    second = pipelines.once(COPIES)
    assert pipelines.rows("numbers-copied") == ordered(numbers)
    doubled = [{"twice": 2 * n} for n in range(50)]
    assert files_of(tmp_path / "doubled") == ordered(doubled)
    assert ordered(second.heard.tables["doubled-console"]) == ordered(doubled[40:])
    assert second.query("doubled-console").rows_out == 10
    third = pipelines.once(COPIES)
    assert third.heard.tables == {}
    assert pipelines.rows("numbers-copied") == ordered(numbers)
    assert files_of(tmp_path / "doubled") == ordered(doubled)
    for query in ("plain-stream", "doubled-parquet", "doubled-console"):
        assert pipelines.group("numbers", f"copies-{query}").lag == 0


JOINED = """
name: joined
spark: {spark.sql.streaming.noDataMicroBatches.enabled: true}
sources:
  clicks: {stream: clicks, schema: "page BIGINT, at TIMESTAMP", watermark: {column: at, delay: 1m}}
  pages: {parquet: pages}
steps:
  - {name: named, sql: "SELECT c.at, p.title FROM clicks c JOIN pages p ON c.page = p.page"}
  - name: visits
    window: {from: named, column: at, gap: 5m, by: [title], select: {clicks: count(*)}}
sinks:
  - {from: visits, console: true}
"""


def test_a_stream_is_joined_with_a_table_and_gathered_in_sessions(pipelines: Pipelines, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    pq.write_table(pa.table({"page": [1, 2], "title": ["home", "about"]}), tmp_path / "pages" / "all.parquet")
    pipelines.create("clicks")
    clicks = [(1, "08:00:00"), (1, "08:04:59"), (2, "08:03:00"), (1, "08:10:00"), (3, "08:01:00"), (2, "10:00:00")]
    pipelines.send("clicks", *({"page": page, "at": at(when)} for page, when in clicks))
    going = pipelines.once(JOINED)
    found = [
        (row["title"], f"{row['window_start']:%H:%M:%S}", f"{row['window_end']:%H:%M:%S}", row["clicks"])
        for row in going.heard.tables["visits-console"]
    ]
    assert sorted(found) == [
        ("about", "08:03:00", "08:08:00", 1),
        ("home", "08:00:00", "08:09:59", 2),
        ("home", "08:10:00", "08:15:00", 1),
    ]
    assert going.run.lag == 0, "the table says nothing of its position, and the stream does"


BATCH = """
name: batch
create_streams: true
sources:
  days: {stream: days, read: batch, schema: "day BIGINT", bad_records: keep}
steps:
  - {name: kept, sql: "SELECT day, _error IS NOT NULL AS bad, offset FROM days"}
  - {name: total, sql: "SELECT count(*) AS days, sum(day) AS sum FROM days"}
sinks:
  - {from: kept, parquet: kept}
  - {from: kept, console: true}
  - {from: total, stream: totals}
"""


def test_a_batch_reads_between_two_times_and_ends_by_itself(pipelines: Pipelines, tmp_path: Path) -> None:
    begin = 1_767_225_600_000_000_000
    times = [begin + day * 86_400_000_000_000 for day in range(10)]
    pipelines.create("days")
    days: list[Row | bytes] = [{"day": day} for day in range(10)]
    days[5] = b"no day"
    pipelines.send("days", *days, times_ns=times)
    source = {"stream": "days", "read": "batch", "schema": "day BIGINT", "bad_records": "keep"}
    bounds = {"from": to_text(times[2]), "until": to_text(times[8])}
    with pipelines.continuous(BATCH, sources={"days": source | bounds}) as going:
        going.wait()
    assert (going.run.state, going.error) == ("finished", None)
    expected = [{"day": None if day == 5 else day, "bad": day == 5, "offset": day} for day in range(2, 8)]
    assert files_of(tmp_path / "kept") == ordered(expected)
    assert ordered(going.heard.tables["kept-console"]) == ordered(expected)
    assert pipelines.rows("totals") == [{"days": 6, "sum": 22}]
    assert [(each.name, each.rows_out) for each in going.run.queries] == [
        ("kept-parquet", 6), ("kept-console", 6), ("total-stream", 1),
    ]  # fmt: skip
    whole = pipelines.once(BATCH)
    assert pipelines.rows("totals") == [{"days": 10, "sum": 40}, {"days": 6, "sum": 22}]
    assert len(files_of(tmp_path / "kept")) == 16
    assert whole.heard.changes == 3


SLOW = """
name: slow
create_streams: true
sources:
  ticks: {stream: ticks, schema: "n BIGINT", group: ticking, options: {maxRecordsPerTrigger: 10}}
steps:
  - {name: plain, sql: SELECT n FROM ticks}
sinks:
  - {from: plain, stream: ticked, trigger: 1h}
"""


def test_a_run_shows_what_waits_stops_when_told_and_goes_on_where_it_was(pipelines: Pipelines) -> None:
    pipelines.create("ticks", partitions=2)
    ticks: list[Row] = [{"n": n} for n in range(25)]
    pipelines.send("ticks", *ticks[:20])
    pipelines.send("ticks", *ticks[20:], partition=1)
    with pipelines.continuous(SLOW) as going:
        going.until(lambda: going.query("plain-stream").lag == 15)
        assert pipelines.remembered("slow").state == "running"
    assert (going.run.state, going.run.error, going.error) == ("stopped", None, None)
    assert pipelines.remembered("slow") == going.run
    assert len(pipelines.rows("ticked")) == 10
    assert pipelines.group("ticks", "ticking").lag >= 15
    with pipelines.continuous(SLOW, sinks=[{"from": "plain", "stream": "ticked", "trigger": "10ms"}]) as going:
        going.until(lambda: pipelines.group("ticks", "ticking").lag == 0)
        pipelines.send("ticks", {"n": 25})
        going.until(lambda: len(pipelines.rows("ticked")) == 26)
    assert going.run.state == "stopped"
    assert pipelines.rows("ticked") == ordered([*ticks, {"n": 25}])
