"""What a running query says of itself, as the lines of its run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flowmesh.pipelines.registry import QueryRun
from flowmesh.pipelines.starting import ROWS_OUT

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class QueryWatch:
    """Takes each progress of a query once."""

    def __init__(self, query: StreamingQuery, run: QueryRun) -> None:
        self.query = query
        self.run = run
        self._seen = ""

    def poll(self) -> bool:
        """Whether there was anything new."""
        fresh = []
        # One call each for those that are new; Spark keeps a hundred, and PySpark would make objects of all of them.
        reports: Any = self.query._jsq.recentProgress()
        for number in reversed(range(len(reports))):
            if reports[number].timestamp() <= self._seen:
                break
            fresh.append(json.loads(reports[number].json()))
        for progress in reversed(fresh):
            self._seen = progress["timestamp"]
            apply(self.run, progress)
        return bool(fresh)


def apply(run: QueryRun, progress: Mapping[str, Any]) -> None:
    """One progress report of Spark's added to what is known."""
    run.batch = progress["batchId"]
    run.rows_in += max(progress.get("numInputRows") or 0, 0)
    run.rows_out += _rows_out(progress)
    run.rows_late += sum(each.get("numRowsDroppedByWatermark") or 0 for each in progress.get("stateOperators", ()))
    run.rows_per_second = _number(progress.get("processedRowsPerSecond"))
    run.updated = progress["timestamp"]
    lags = [lag for lag in map(_lag, progress.get("sources", ())) if lag is not None]
    if lags:
        run.lag = sum(lags)


def _rows_out(progress: Mapping[str, Any]) -> int:
    observed = progress.get("observedMetrics", {}).get(ROWS_OUT)
    return int(observed[ROWS_OUT]) if observed else 0


def _lag(source: Mapping[str, Any]) -> int | None:
    """Between where a batch ended and where its stream ended then. Other sources do not say."""
    end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if end is None or latest is None:
        return None
    return sum(max(offset - end.get(partition, 0), 0) for partition, offset in latest.items())


def _offsets(position: Any) -> dict[str, int] | None:
    if isinstance(position, str):
        try:
            position = json.loads(position)
        except ValueError:
            return None
    found = position.get("offsets") if isinstance(position, dict) else None
    return found if isinstance(found, dict) else None


def _number(value: Any) -> float:
    """Spark says NaN and Infinity as text."""
    return float(value) if isinstance(value, int | float) else 0.0
