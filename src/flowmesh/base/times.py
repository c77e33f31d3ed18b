"""Time inside FlowMesh is an integer count of nanoseconds since 1970, UTC. This module spells it for people."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from flowmesh.base.errors import BadRequest

NANOSECONDS = 1_000_000_000
UNSTAMPED = -(2**63)
"""A batch time that means: whoever appends it puts the time in."""

_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": NANOSECONDS, "m": 60 * NANOSECONDS, "h": 3600 * NANOSECONDS}
_UNITS |= {"d": 24 * _UNITS["h"], "w": 7 * 24 * _UNITS["h"]}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COUNT = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_ISO = re.compile(
    r"(?P<moment>[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?)"
    r"(?:[.,](?P<fraction>[0-9]{1,30}))?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?",
    re.ASCII,
)
_DURATION = re.compile(r"([0-9]{1,12})(ns|us|ms|s|m|h|d|w)", re.ASCII)


def to_text(time_ns: int) -> str:
    """ISO 8601 with nine digits of a second, so that no two instants look alike."""
    seconds, nanoseconds = divmod(time_ns, NANOSECONDS)
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"


def from_text(text: str) -> int:
    """An ISO 8601 time (no zone means UTC), or a plain count of nanoseconds."""
    if _COUNT.fullmatch(text):
        return int(text)
    match = _ISO.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        moment = datetime.fromisoformat(match["moment"] + (match["zone"] or ""))
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except ValueError as error:
        raise BadRequest(
            f"{text[:60]!r} is no time.",
            field="time",
            hint="Write 2026-01-31T12:00:00Z, or a count of nanoseconds since 1970.",
        ) from error
    whole = moment - _EPOCH
    fraction = (match["fraction"] or "")[:9].ljust(9, "0")
    return (whole.days * 86_400 + whole.seconds) * NANOSECONDS + int(fraction)


def duration_from_text(text: str) -> int:
    """`90s`, `15m`, `36h`, `7d` as nanoseconds."""
    match = _DURATION.fullmatch(text)
    if match is not None:
        return int(match[1]) * _UNITS[match[2]]
    raise BadRequest(f"{text[:60]!r} is no length of time.", field="duration", hint="Write 90s, 15m, 36h or 7d.")
