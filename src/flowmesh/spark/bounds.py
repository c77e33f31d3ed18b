"""From options and filters to offsets: where a read begins and ends in each partition. Asks indexes, reads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from flowmesh.base.times import NANOSECONDS
from flowmesh.spark.errors import bad_option
from flowmesh.spark.location import PartitionFacts, Range, StreamAsking, StreamFacts
from flowmesh.spark.options import EARLIEST, LATEST, Bound

SAMPLES = 8
"""Blocks behind a time range that are looked at, to learn whether records came in the order of their times."""
STAMPED_LATENESS_NS = 60 * NANOSECONDS
"""What is allowed for where producers put in the times and the samples are in order."""
_MICROSECOND_NS = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Narrowing(NamedTuple):
    """What filters leave: partitions, offsets `[start, end)` and times `[since, until)`. None: not narrowed."""

    partitions: frozenset[int] | None = None
    start: int | None = None
    end: int | None = None
    since_ns: int | None = None
    until_ns: int | None = None

    def within(self, other: Narrowing) -> Narrowing:
        mine, theirs = self.partitions, other.partitions
        partitions = mine & theirs if mine is not None and theirs is not None else mine if theirs is None else theirs
        return Narrowing(
            partitions,
            _last(self.start, other.start),
            _first(self.end, other.end),
            _last(self.since_ns, other.since_ns),
            _first(self.until_ns, other.until_ns),
        )


def _last(one: int | None, two: int | None) -> int | None:
    return max(one, two) if one is not None and two is not None else one if two is None else two


def _first(one: int | None, two: int | None) -> int | None:
    return min(one, two) if one is not None and two is not None else one if two is None else two


def nanoseconds(moment: datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    past = aware - _EPOCH
    return ((past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds) * _MICROSECOND_NS


# --- options ------------------------------------------------------------------------------------------------------


def chosen_partitions(facts: StreamFacts, values: Mapping[str, Any]) -> list[PartitionFacts]:
    wanted: Sequence[int] | None = values["partitions"]
    if wanted is None:
        return list(facts.partitions)
    known = {each.partition: each for each in facts.partitions}
    for number in wanted:
        if number not in known:
            raise bad_option("partitions", f"there is no partition {number}.", f"There are 0 to {len(known) - 1}.")
    return [known[number] for number in wanted]


def starts(asking: StreamAsking, facts: StreamFacts, values: Mapping[str, Any], default: str) -> dict[int, int]:
    """Where each chosen partition begins. An offset that is given stays as it is, also when the log has lost it."""
    chosen = chosen_partitions(facts, values)
    return _placed(asking, chosen, values, "startingOffsets", "startingTimestamp", default)


def ends(asking: StreamAsking, facts: StreamFacts, values: Mapping[str, Any]) -> dict[int, int]:
    chosen = chosen_partitions(facts, values)
    return _placed(asking, chosen, values, "endingOffsets", "endingTimestamp", LATEST)


def _placed(
    asking: StreamAsking, chosen: Sequence[PartitionFacts], values: Mapping[str, Any], by: str, when: str, default: str
) -> dict[int, int]:
    given: dict[int | None, Bound] = values[by] or {}
    moments: dict[int | None, int] = values[when] or {}
    _require_known(by, given, chosen)
    _require_known(when, moments, chosen)
    if moments and given and given != {None: default}:
        raise bad_option(when, f"a read begins and ends in one way: leave out '{by}' or '{when}'.")
    found = {each.partition: _bound(each, given.get(each.partition, given.get(None, default))) for each in chosen}
    asked = {p: moments.get(p, moments.get(None)) for p in found if p in moments or None in moments}
    if asked:
        found |= asking.find({partition: moment for partition, moment in asked.items() if moment is not None})
    return found


def _bound(facts: PartitionFacts, bound: Bound) -> int:
    if isinstance(bound, int):
        return bound
    return facts.start if bound == EARLIEST else facts.end


def _require_known(option: str, given: Iterable[int | None], chosen: Sequence[PartitionFacts]) -> None:
    known = {each.partition for each in chosen}
    for partition in given:
        if partition is not None and partition not in known:
            raise bad_option(option, f"there is no partition {partition} among {sorted(known)}.")


# --- filters ------------------------------------------------------------------------------------------------------


def narrowed(
    asking: StreamAsking, ranges: Mapping[int, tuple[int, int]], narrowing: Narrowing, lateness_ns: int | None
) -> dict[int, tuple[int, int]]:
    """The ranges without what the filters certainly leave out."""
    found = {
        partition: (max(start, narrowing.start or 0), end if narrowing.end is None else min(end, narrowing.end))
        for partition, (start, end) in ranges.items()
        if narrowing.partitions is None or partition in narrowing.partitions
    }
    found = {partition: bounds for partition, bounds in found.items() if bounds[0] < bounds[1]}
    if narrowing.since_ns is not None and found:
        places = asking.find(dict.fromkeys(found, narrowing.since_ns))
        found = {partition: (max(start, places[partition]), end) for partition, (start, end) in found.items()}
    if narrowing.until_ns is not None and found:
        found = _ended(asking, found, narrowing.until_ns, lateness_ns)
    return {partition: bounds for partition, bounds in found.items() if bounds[0] < bounds[1]}


def _ended(
    asking: StreamAsking, ranges: Mapping[int, tuple[int, int]], until_ns: int, lateness_ns: int | None
) -> dict[int, tuple[int, int]]:
    """The ranges up to where no record is older than `until_ns` any more, as far as lateness can be known.

    The index tells where times first pass a bound, not whether an older record comes after. Where a node put in the
    times none does. Else blocks behind the bound are looked at, and one that is late keeps the whole rest in the range.
    """
    allowed = lateness_ns or 0
    places = asking.find(dict.fromkeys(ranges, until_ns + allowed))
    if lateness_ns is None:
        late: dict[int, int] = {}
        for partition, (start, end) in ranges.items():
            begin = max(places[partition], start)
            if begin < end:
                late[partition] = _lateness(asking, Range(partition, begin, end), until_ns)
        again = {partition: until_ns + STAMPED_LATENESS_NS for partition, found in late.items() if found == _UNSURE}
        places |= asking.find(again) if again else {}
        places |= {partition: ranges[partition][1] for partition, found in late.items() if found == _LATE}
    return {partition: (start, min(end, places[partition])) for partition, (start, end) in ranges.items()}


_IN_ORDER, _UNSURE, _LATE = range(3)


def _lateness(asking: StreamAsking, tail: Range, until_ns: int) -> int:
    step = max((tail.end - tail.start) // SAMPLES, 1)
    offset, found, newest_before = tail.start, _IN_ORDER, None
    while offset < tail.end:
        oldest, newest, after = asking.times(tail.partition, offset)
        if newest_before is not None and oldest < newest_before:
            return _LATE
        if offset > tail.start and oldest < until_ns:
            return _LATE
        if oldest != newest:
            found = _UNSURE
        newest_before = newest
        offset = max(after, min(offset + step, tail.end - 1))
    return found
