"""Headers of frames as they arrive: decoded, or refused in words for whoever sent them. What they say is for others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from flowmesh.base.errors import BadRequest

H = TypeVar("H")
_FAULTS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The decoder checks the UTF-8 of a text on its own, and tells of it with an error that is none of its own."""


def decoded(decode: Callable[[bytes], H], header: bytes, kind: str) -> H:
    try:
        return decode(header)
    except _FAULTS as error:
        raise BadRequest(f"this is no {kind}: {error}") from error
