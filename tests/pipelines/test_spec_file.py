"""Reading a YAML file: what is right is taken, and what is wrong is said with the field where it is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from flowmesh.base.errors import BadRequest, NotFound
from flowmesh.pipelines.outputs import group_names, queries, require_no_loop
from flowmesh.pipelines.spec import PipelineSpec
from flowmesh.pipelines.spec_file import FILE_BYTES_MAX, load, parse
from flowmesh.pipelines.target import NodeTarget
from flowmesh.pipelines.views import needed_views, step_sql

WHOLE = """
name: revenue
checkpoint: ${PLACE:-here}/checkpoint
create_streams: true
spark: {spark.sql.shuffle.partitions: 3}
sources:
  orders:
    stream: shop/orders
    schema: "id BIGINT, category STRING, amount DOUBLE, at TIMESTAMP"
    from: 2026-01-31T12:00:00Z
    watermark: {column: at, delay: 30s}
    dead_letter: orders-bad
    hold: 7d
    options: {maxRecordsPerTrigger: 1000, verify: true}
  prices:
    parquet: prices
steps:
  - name: priced
    sql: SELECT o.*, p.price FROM Orders o JOIN prices p ON o.id = p.id
    watermark: {column: at, delay: 1m}
  - name: revenue
    window: {from: priced, size: 1m, slide: 30s, by: [category], select: {revenue: sum(amount)}}
sinks:
  - {from: revenue, stream: revenue, key: category}
  - {from: orders, parquet: /archive/orders, trigger: 10s}
  - {from: priced, console: true, name: look}
"""


def spec_of(text: str = WHOLE, **environment: str) -> PipelineSpec:
    return parse(yaml.safe_load(text), environment)


def with_change(*path: Any, value: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WHOLE.replace("2026-01-31T12:00:00Z", "earliest"))
    inside: Any = found
    for key in path[:-1]:
        inside = inside[key]
    if value is None:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return found


def test_everything_that_can_be_said_is_taken(tmp_path: Path) -> None:
    place = tmp_path / "revenue.yaml"
    place.write_text(WHOLE)
    spec = parse(load(place), {"PLACE": "/srv"})
    assert spec.checkpoint == "/srv/checkpoint"
    orders = spec.sources["orders"]
    assert orders.start == "2026-01-31T12:00:00Z"
    assert orders.options == {"maxRecordsPerTrigger": 1000, "verify": True}
    assert orders.watermark is not None
    assert [sink.name for sink in spec.sinks] == [None, None, "look"]
    assert parse(load(place), {}).checkpoint == "here/checkpoint"


def test_each_query_reads_only_what_its_view_is_made_of() -> None:
    spec = spec_of(WHOLE.replace("2026-01-31T12:00:00Z", "latest"))
    assert needed_views(spec, "revenue") == ["orders", "prices", "priced", "revenue"]
    assert needed_views(spec, "orders") == ["orders"]
    assert dict(queries(spec))["orders-dead-letter"] == ["orders"]


def test_groups_have_the_name_of_the_pipeline_and_of_the_query_where_there_are_several() -> None:
    spec = spec_of(WHOLE.replace("2026-01-31T12:00:00Z", "latest"))
    assert group_names(spec, None) == {
        ("revenue-stream", "orders"): "revenue-revenue-stream",
        ("orders-parquet", "orders"): "revenue-orders-parquet",
        ("look", "orders"): "revenue-look",
        ("orders-dead-letter", "orders"): "revenue-orders-dead-letter",
    }
    alone = parse({"name": "a", "sources": {"x": {"stream": "s"}}, "sinks": [{"from": "x", "console": True}]}, {})
    assert group_names(alone, None) == {("x-console", "x"): "a"}


def test_dead_letters_do_not_go_back_to_their_source_whatever_it_is_called() -> None:
    letters = WHOLE.replace("dead_letter: orders-bad", "dead_letter: default/shop/orders")
    spec = spec_of(letters.replace("2026-01-31T12:00:00Z", "latest"))
    with pytest.raises(BadRequest, match=r"sources\.orders\.dead_letter: it is the source itself"):
        require_no_loop(spec, NodeTarget("flowmesh://x", "t"))
    require_no_loop(spec, NodeTarget("flowmesh://x", "t", tenant="acme"))


@pytest.mark.parametrize(
    "window, made, by, group",
    [
        (
            {"size": "1m", "by": ["category", "a.b"]},
            "window",
            "`category`, `a`.`b`, ",
            "window(`at`, '60000 milliseconds'), `category`, `a`.`b`",
        ),
        (
            {"size": "1m", "slide": "30s", "column": "then"},
            "window",
            "",
            "window(`then`, '60000 milliseconds', '30000 milliseconds')",
        ),
        ({"gap": "5m"}, "session_window", "", "session_window(`at`, '300000 milliseconds')"),
    ],
)
def test_a_window_is_short_for_sql(window: dict[str, Any], made: str, by: str, group: str) -> None:
    whole = {"from": "priced", "select": {"revenue": "sum(amount)"}, **window}
    spec = parse(with_change("steps", 1, "window", value=whole), {})
    selected = f"{made}.start AS window_start, {made}.end AS window_end, {by}sum(amount) AS `revenue`"
    assert step_sql(spec, spec.steps[1]) == f"SELECT {selected} FROM `priced` GROUP BY {group}"


@pytest.mark.parametrize(
    "path, value, field, words",
    [
        (["name"], None, "name", "missing"),
        (["name"], "No Name", "name", "not a name"),
        (["sources"], {}, "sources", "there is none"),
        (["sources"], [1], "sources", "it is a list"),
        (["sources", "orders", "streem"], "x", "sources.orders.streem", "Did you mean 'stream'?"),
        (["sources", "orders", "stream"], None, "sources.orders.stream", "One of stream or parquet"),
        (["sources", "orders", "stream"], "a//b", "sources.orders.stream", "not a name"),
        (["sources", "orders", "stream"], "a/b/c/d", "sources.orders.stream", "no stream"),
        (["sources", "orders", "parquet"], "x", "sources.orders.parquet", "'stream' already"),
        (["sources", "orders", "schema"], 7, "sources.orders.schema", "has to be text"),
        (["sources", "orders", "from"], "soon", "sources.orders.from", "no place"),
        (["sources", "orders", "until"], "2026-01-31", "sources.orders.until", "read: batch"),
        (["sources", "orders", "read"], "slowly", "sources.orders.read", "batch, stream"),
        (["sources", "orders", "read"], "batch", "sources.orders.hold", "no position"),
        (["sources", "orders", "group"], "Me!", "sources.orders.group", "not a name"),
        (["sources", "orders", "bad_records"], "drop", "sources.orders.bad_records", "go there"),
        (["sources", "orders", "schema"], None, "sources.orders.dead_letter", "Add 'sources.orders.schema'"),
        (["sources", "orders", "dead_letter"], "shop/orders", "sources.orders.dead_letter", "itself"),
        (["sources", "orders", "watermark"], "30s", "sources.orders.watermark", "has to be entries"),
        (["sources", "orders", "watermark", "delay"], None, "sources.orders.watermark.delay", "How far behind"),
        (["sources", "orders", "watermark", "delay"], 30, "sources.orders.watermark.delay", "has to be text"),
        (["sources", "orders", "watermark", "delay"], "soon", "sources.orders.watermark.delay", "Write 90s"),
        (["sources", "orders", "watermark", "delay"], "1us", "sources.orders.watermark.delay", "too short"),
        (["sources", "orders", "options"], {"a": [1]}, "sources.orders.options.a", "it is a list"),
        (["sources", "prices", "schema"], "a INT", "sources.prices.schema", "streams only"),
        (["sources", "prices", "from"], "latest", "sources.prices.from", "streams only"),
        (["sources", "Orders"], {"stream": "x"}, "sources.Orders", "already"),
        (["sources", "a-b"], {"stream": "x"}, "sources.a-b", "no name of a view"),
        (["steps"], {"name": "x"}, "steps", "has to be a list"),
        (["steps", 0, "name"], "orders", "steps[0].name", "already"),
        (["steps", 0, "sql"], None, "steps[0].sql", "One of sql or window"),
        (["steps", 0, "sql"], " ", "steps[0].sql", "empty"),
        (["steps", 1, "window", "from"], "revenue", "steps[1].window.from", "no view 'revenue' before"),
        (["steps", 1, "window", "gap"], "1m", "steps[1].window.gap", "'size' already"),
        (["steps", 1, "window", "slide"], "2m", "steps[1].window.slide", "longer"),
        (["steps", 1, "window", "select"], {}, "steps[1].window.select", "there is none"),
        (["steps", 0, "watermark"], None, "steps[1].window.column", "no watermark"),
        (["sinks"], [], "sinks", "there is none"),
        (["sinks", 0, "from"], "nothing", "sinks[0].from", "There are orders, prices"),
        (["sinks", 0, "stream"], None, "sinks[0].stream", "One of stream, parquet or console"),
        (["sinks", 0, "mode"], "complete", "sinks[0].mode", "appended"),
        (["sinks", 1, "mode"], "update", "sinks[1].mode", "only ever added"),
        (["sinks", 1, "key"], "id", "sinks[1].key", "have keys"),
        (["sinks", 1, "trigger"], "often", "sinks[1].trigger", "length of time"),
        (["sinks", 2, "console"], "yes", "sinks[2].console", "true or false"),
        (["sinks", 2, "name"], "revenue-stream", "sinks[2].name", "a query 'revenue-stream' already"),
        (["sinks", 2, "name"], "orders-dead-letter", "sinks[2].name", "a query 'orders-dead-letter' already"),
        (
            ["sources", "_orders"],
            {"stream": "x", "schema": "a INT", "dead_letter": "y"},
            "sources._orders",
            "a query 'orders-dead-letter' already",
        ),
        (["sources", "orders", "options"], {"Columns": "offset"}, "sources.orders.options.Columns", "do not fit"),
        (["sources", "orders", "options"], {"valueColumn": "v"}, "sources.orders.options.valueColumn", "do not fit"),
        (["spark"], {"a": None}, "spark.a", "it is empty"),
        (["checkpoint"], "${NOWHERE}", "checkpoint", "no variable NOWHERE"),
    ],
)
def test_what_is_wrong_is_said_with_its_field(path: list[Any], value: Any, field: str, words: str) -> None:
    with pytest.raises(BadRequest) as raised:
        parse(with_change(*path, value=value), {})
    assert raised.value.field == field
    assert str(raised.value).startswith(f"{field}: ")
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "text, words",
    [
        ("name: [", "is not YAML"),
        ("sources:\n  a: {stream: x}\n  a: {stream: y}\n", "two entries 'a'"),
        ("x" * (FILE_BYTES_MAX + 1), "bytes"),
    ],
)
def test_a_file_that_is_no_yaml_is_refused(tmp_path: Path, text: str, words: str) -> None:
    place = tmp_path / "p.yaml"
    place.write_text(text)
    with pytest.raises(BadRequest, match=words):
        load(place)
    with pytest.raises(NotFound):
        load(tmp_path / "other.yaml")
