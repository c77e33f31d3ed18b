"""Time inside FlowMesh is an integer count of nanoseconds since 1970, UTC. This module spells it for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flowmesh.base.errors import BadRequest

NANOSECONDS = 1_000_000_000
UNSTAMPED = -(2**63)
"""A batch time that means: whoever appends it puts the time in."""

_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": NANOSECONDS, "m": 60 * NANOSECONDS, "h": 3600 * NANOSECONDS}
_UNITS |= {"d": 24 * _UNITS["h"], "w": 7 * 24 * _UNITS["h"]}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_text(time_ns: int) -> str:
    """ISO 8601 with nine digits of a second, so that no two instants look alike."""
    seconds, nanoseconds = divmod(time_ns, NANOSECONDS)
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"


def from_text(text: str) -> int:
    """An ISO 8601 time (no zone means UTC), or a plain count of nanoseconds."""
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        head, _, fraction = text.partition(".")
        digits = fraction[: len(fraction) - len(fraction.lstrip("0123456789"))]
        moment = datetime.fromisoformat(head + fraction[len(digits) :])
    except ValueError as error:
        raise BadRequest(
            f"{text!r} is no time.",
            field="time",
            hint="Write 2026-01-31T12:00:00Z, or a count of nanoseconds since 1970.",
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    whole = moment - _EPOCH
    return (whole.days * 86_400 + whole.seconds) * NANOSECONDS + int(digits[:9].ljust(9, "0") or 0)


def duration_from_text(text: str) -> int:
    """`90s`, `15m`, `36h`, `7d` as nanoseconds."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :]
    if unit in _UNITS and number.isascii() and number.isdigit():
        return int(number) * _UNITS[unit]
    raise BadRequest(f"{text!r} is no length of time.", field="duration", hint="Write 90s, 15m, 36h or 7d.")
