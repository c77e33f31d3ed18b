"""Sizes in bytes as people write them: `65536`, `64KiB`, `2GiB`."""

from __future__ import annotations

import re

from flowmesh.base.errors import BadRequest

_SIZE = re.compile(r"([0-9]{1,18})(?:([kmgt])i?)?b?", re.IGNORECASE | re.ASCII)
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def size_from_text(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise BadRequest(f"{text[:60]!r} is no size.", hint="Write a number of bytes, or 64KiB, 256MiB, 2GiB.")
    return int(match[1]) * _FACTORS[(match[2] or "").lower()]
