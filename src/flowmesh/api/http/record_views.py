"""Records as clients see them in JSON: the fields of a message, with what is derived and not stored filled in."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from flowmesh.api.http.record_forms import Base64, Text
from flowmesh.api.http.selection import Selection
from flowmesh.base.times import to_text
from flowmesh.format.columns import Header
from flowmesh.operations.messages import Reply


class RecordView(Reply, frozen=True):
    id: str
    """`tenant/namespace/stream/partition/offset`."""
    type: str
    partition: int
    offset: int
    time: str
    key: str | Base64 | None
    value: str | Base64 | None
    headers: dict[str, str | Base64] | list[tuple[str | Base64, str | Base64]]
    """An object where that loses nothing; pairs where a name is there twice, or is no text."""
    schema_version: int


class RecordPage(Reply, frozen=True):
    records: list[RecordView]
    next_offset: int
    """Where to read on."""
    start_offset: int
    end_offset: int


STREAM = "STREAM"
_time_text = lru_cache(maxsize=1024)(to_text)  # the records of a batch often have one time
_encode_lines = msgspec.json.Encoder().encode_lines
_encode = msgspec.json.Encoder().encode


class RecordPlace:
    """The partition that records come from: what their ids begin with."""

    __slots__ = ("_prefix", "partition")

    def __init__(self, path: str, partition: int) -> None:
        self.partition = partition
        self._prefix = f"{path}/{partition}/"

    def views(self, selections: Iterable[Selection]) -> list[RecordView]:
        prefix, partition = self._prefix, self.partition
        return [
            RecordView(
                f"{prefix}{record.offset}",
                STREAM,
                partition,
                record.offset,
                _time_text(record.time_ns),
                _text(record.key),
                _text(record.value),
                _headers(record.headers) if record.headers else {},
                selection.block.batch_header.schema_version,
            )
            for selection in selections
            for record in selection.records()
        ]

    def lines(self, selection: Selection) -> bytes:
        return _encode_lines(self.views((selection,)))

    def events(self, selection: Selection) -> bytes:
        """For `text/event-stream`. JSON has no line breaks of its own, so each record is one data line."""
        return b"".join(b"id: %d\ndata: %b\n\n" % (view.offset, _encode(view)) for view in self.views((selection,)))

    def page(self, selections: list[Selection], next_offset: int, start_offset: int, end_offset: int) -> bytes:
        return _encode(RecordPage(self.views(selections), next_offset, start_offset, end_offset))


def _text(data: bytes | None) -> Text | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Base64(data)


def _headers(pairs: tuple[Header, ...]) -> dict[str, Text] | list[tuple[Text, Text]]:
    texts = [(_text(name) or "", _text(content) or "") for name, content in pairs]
    named = {name: content for name, content in texts if isinstance(name, str)}
    return named if len(named) == len(texts) else texts
