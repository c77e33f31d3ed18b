"""The audit log and the log lines around it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from flowmesh.api.admission import Denial
from flowmesh.api.service import Change
from flowmesh.base.errors import Forbidden
from flowmesh.observability import logs
from flowmesh.observability.audit import DENIALS_BURST, DENIALS_PER_SECOND, AuditLog
from flowmesh.observability.metrics import Metrics
from flowmesh.sim.clock import SimClock

DENIED = Denial("stream.read", "192.0.2.1", "abc", Forbidden("no"))


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    text = io.StringIO()
    logs.set_up("info", "json", text)
    yield text
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_denial_and_a_change_are_one_line_each(stream: io.StringIO) -> None:
    audit = AuditLog(SimClock())
    audit.denied(DENIED)
    audit.changed(Change("stream.create", "abc", "default/shop/orders", "OK"))
    denied, changed = lines(stream)
    assert (denied["event"], denied["operation"], denied["peer"], denied["token"], denied["code"]) == (
        "denied",
        "stream.read",
        "192.0.2.1",
        "abc",
        "FORBIDDEN",
    )
    assert (denied["level"], denied["logger"]) == ("warning", "flowmesh.audit")
    assert (changed["event"], changed["target"], changed["outcome"]) == ("changed", "default/shop/orders", "OK")


def test_a_flood_of_denials_is_counted_and_not_written(stream: io.StringIO) -> None:
    clock, metrics = SimClock(), Metrics()
    audit = AuditLog(clock, metrics)
    for _ in range(10 * DENIALS_BURST):
        audit.denied(DENIED)
    assert len(lines(stream)) == DENIALS_BURST
    assert metrics.denials == {"FORBIDDEN": 10 * DENIALS_BURST}
    clock.advance(1_000_000_000)
    for _ in range(DENIALS_BURST):
        audit.denied(DENIED)
    assert len(lines(stream)) == DENIALS_BURST + DENIALS_PER_SECOND
    assert lines(stream)[DENIALS_BURST]["unwritten_before"] == 9 * DENIALS_BURST


def test_an_exception_stays_on_its_json_line(stream: io.StringIO) -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("flowmesh.node").exception("it failed")
    (line,) = lines(stream)
    assert line["message"] == "it failed"
    assert "ValueError: two\nlines" in line["exception"]


def test_levels_and_other_loggers(stream: io.StringIO) -> None:
    logging.getLogger("flowmesh.node").debug("not shown")
    logging.getLogger("uvicorn.error").info("not shown")
    logging.getLogger("uvicorn.error").warning("shown")
    assert [line["message"] for line in lines(stream)] == ["shown"]


def test_text_lines_are_for_people() -> None:
    record = logging.LogRecord("flowmesh.node", logging.INFO, "x", 1, "hello %s", ("you",), None)
    record.created = 0
    assert logs.TextLines().format(record) == "1970-01-01T00:00:00.000000000Z info    flowmesh.node: hello you"
