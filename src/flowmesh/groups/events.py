"""What can happen to groups. These are stored: a field may be added with a default, and none is ever renamed."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from flowmesh.groups.model import Group


class OffsetsCommitted(msgspec.Struct, frozen=True, tag="offsets-committed", omit_defaults=True):
    """Says all about the group, but for the offsets of partitions that it does not name."""

    stream: int
    group: str
    offsets: dict[int, int]
    at_ns: int
    ran_ns: int
    kind: str = "consumer"
    hold_ns: int | None = None
    location: str | None = None


class GroupDeleted(msgspec.Struct, frozen=True, tag="group-deleted"):
    stream: int
    group: str


class GroupsForgotten(msgspec.Struct, frozen=True, tag="groups-forgotten"):
    """Those of a stream that is gone."""

    stream: int


class TimeNoted(msgspec.Struct, frozen=True, tag="time-noted"):
    ran_ns: int


class GroupCarried(msgspec.Struct, frozen=True, tag="group-carried"):
    """A group as it is, written anew so that what lies before can go. Nothing changes by it."""

    group: Group


Event: TypeAlias = OffsetsCommitted | GroupDeleted | GroupsForgotten | TimeNoted | GroupCarried
encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Event)


def decode(data: bytes) -> Event:
    event: Event = _decoder.decode(data)
    return event
