"""Filters of Spark on partition, offset and timestamp, as bounds that the index can answer."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql import datasource as ds

from flowmesh.spark.bounds import Narrowing, nanoseconds

_MICROSECOND_NS = 1_000
_NOTHING = Narrowing(partitions=frozenset())


class Pushed(NamedTuple):
    narrowing: Narrowing
    left: list[ds.Filter]
    """What Spark has to check itself. Times are among it: the index knows them only by the block."""


def pushed(filters: Iterable[ds.Filter]) -> Pushed:
    narrowing, left = Narrowing(), []
    for each in filters:
        found = _narrowing(each)
        if found is None:
            left.append(each)
            continue
        narrowing = narrowing.within(found)
        if found.since_ns is not None or found.until_ns is not None:
            left.append(each)
    return Pushed(narrowing, left)


def _narrowing(each: ds.Filter) -> Narrowing | None:
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    if len(attribute) != 1:
        return None
    if isinstance(each, ds.IsNotNull) and attribute[0] in _COLUMNS:
        return Narrowing()
    make = _COLUMNS.get(attribute[0])
    if make is None:
        return None
    if isinstance(each, ds.In):
        return make("in", each.value) if each.value else _NOTHING
    sign = _SIGNS.get(type(each))
    return None if sign is None else make(sign, getattr(each, "value", None))


def _partition(sign: str, value: Any) -> Narrowing | None:
    if sign == "in":
        numbers = [each for each in value if each is not None]
        return Narrowing(partitions=frozenset(numbers)) if all(isinstance(each, int) for each in numbers) else None
    return Narrowing(partitions=frozenset((value,))) if sign == "=" and isinstance(value, int) else None


def _offset(sign: str, value: Any) -> Narrowing | None:
    if not isinstance(value, int):
        return None
    start, end = _interval(sign, value, 1)
    if sign == "in" or (end is not None and end <= 0):
        return None if sign == "in" else _NOTHING
    return Narrowing(start=start, end=end)


def _timestamp(sign: str, value: Any) -> Narrowing | None:
    if not isinstance(value, datetime):
        return None
    since, until = _interval(sign, nanoseconds(value), _MICROSECOND_NS)
    if since is not None and since <= 0:
        since -= _MICROSECOND_NS - 1  # before 1970 a time is shown rounded up to its microsecond
    return Narrowing(since_ns=since, until_ns=until)


def _interval(sign: str, value: int, step: int) -> tuple[int | None, int | None]:
    """`[start, end)` of what a comparison leaves, where one value is `step` wide."""
    start = {"=": value, ">=": value, ">": value + step}.get(sign)
    end = {"=": value + step, "<=": value + step, "<": value}.get(sign)
    return start, end


_COLUMNS = {"partition": _partition, "offset": _offset, "timestamp": _timestamp}
_SIGNS: dict[type[ds.Filter], str] = {
    ds.EqualTo: "=",
    ds.EqualNullSafe: "=",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
}
