"""Times and lengths of time, as people write them."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.base.errors import BadRequest
from flowmesh.base.times import NANOSECONDS, duration_from_text, from_text, to_text

I64 = st.integers(-(2**63), 2**63 - 1)


@given(I64)
def test_every_instant_round_trips(time_ns: int) -> None:
    assert from_text(to_text(time_ns)) == from_text(str(time_ns)) == time_ns


@given(I64, I64)
def test_text_sorts_as_time_does(one: int, other: int) -> None:
    assert (to_text(one) < to_text(other)) == (one < other)


@pytest.mark.parametrize(
    "time_ns, text",
    [
        (0, "1970-01-01T00:00:00.000000000Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (2**63 - 1, "2262-04-11T23:47:16.854775807Z"),
        (-(2**63), "1677-09-21T00:12:43.145224192Z"),
    ],
)
def test_text_of_an_instant(time_ns: int, text: str) -> None:
    assert to_text(time_ns) == text


@pytest.mark.parametrize(
    "text, time_ns",
    [
        ("0", 0),
        ("-5", -5),
        ("1970-01-02", 86_400 * NANOSECONDS),
        ("1970-01-01T00:00:01", NANOSECONDS),
        ("1970-01-01 00:00:01Z", NANOSECONDS),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T01:00:00.25+01:00", NANOSECONDS // 4),
        ("1969-12-31T23:59:59.5Z", -NANOSECONDS // 2),
        ("1970-01-01T00:00:00.0000000019Z", 1),
    ],
)
def test_ways_to_write_a_time(text: str, time_ns: int) -> None:
    assert from_text(text) == time_ns


@given(st.datetimes(min_value=datetime(1678, 1, 1), max_value=datetime(2262, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_any_zone(moment: datetime, offset_minutes: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))
    expected = (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    assert from_text(zoned.isoformat()) == expected


@pytest.mark.parametrize(
    "text", ["", "-", "now", "2026-13-01", "2026-01-31T25:00:00Z", "1970-01-01T00:00:00.Q", "\ud800", "1e9"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        from_text(text)
    assert caught.value.field == "time"


@pytest.mark.parametrize("text", ["--5", "²", "9" * 5000])
def test_what_only_looks_like_a_number_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        from_text(text)


@given(st.text(max_size=20).filter(lambda text: not text.lstrip("-").isdigit()))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    for parse in (from_text, duration_from_text):
        with suppress(BadRequest):
            assert isinstance(parse(text), int)


@pytest.mark.parametrize(
    "text, duration_ns",
    [
        ("0s", 0),
        ("7ns", 7),
        ("7us", 7_000),
        ("7ms", 7_000_000),
        ("90s", 90 * NANOSECONDS),
        ("15m", 900 * NANOSECONDS),
        ("36h", 36 * 3600 * NANOSECONDS),
        ("7d", 7 * 86_400 * NANOSECONDS),
        ("2w", 14 * 86_400 * NANOSECONDS),
    ],
)
def test_lengths_of_time(text: str, duration_ns: int) -> None:
    assert duration_from_text(text) == duration_ns


@pytest.mark.parametrize("text", ["", "s", "5", "5 s", "-5s", "1.5h", "5y", "5S", "٥s", "²s", "5ss"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        duration_from_text(text)
    assert caught.value.field == "duration"
