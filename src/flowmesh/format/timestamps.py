"""The 16-byte timestamp of the commitchain document: whole seconds and nanoseconds, two little-endian u64."""

from __future__ import annotations

import struct

from flowmesh.base.times import NANOSECONDS

TIMESTAMP = struct.Struct("<QQ")


def pack(time_ns: int) -> bytes:
    return TIMESTAMP.pack(*divmod(time_ns, NANOSECONDS))


def join(seconds: int, nanoseconds: int) -> int:
    return seconds * NANOSECONDS + nanoseconds
