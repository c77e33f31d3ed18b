"""A record as one line of JSON, in both directions. What `log read --json` prints, `log append --ndjson` takes."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec

from flowmesh.base.errors import BadRequest
from flowmesh.base.times import from_text, to_text
from flowmesh.format.columns import TIME_BOUND, Header, Record


class EncodedBytes(msgspec.Struct, forbid_unknown_fields=True):
    """Bytes that are not UTF-8."""

    base64: bytes


Text: TypeAlias = str | EncodedBytes


class RecordLine(msgspec.Struct, forbid_unknown_fields=True):
    value: msgspec.Raw
    key: Text | None = None
    headers: dict[str, Text] | list[tuple[Text, Text]] | None = None
    time: int | str | None = None
    # What a read gives beside these, here and over HTTP. Taken so that what was read can be appended elsewhere, and not
    # used: a log gives its own offsets.
    offset: Any = None
    partition: Any = None
    id: Any = None
    type: Any = None
    schema_version: Any = None


class InputRecord(NamedTuple):
    value: bytes | None
    key: bytes | None
    headers: tuple[Header, ...]
    time_ns: int | None


class BadLine(Exception):
    """Which field of a line is wrong, and how; which line it is, the caller knows."""

    def __init__(self, message: str, field: str | None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field

    def at(self, line: int) -> BadRequest:
        place = f"line {line}, field '{self.field}'" if self.field else f"line {line}"
        return BadRequest(f"{place}: {self.message}.", field=self.field)


_decode = msgspec.json.Decoder(RecordLine).decode
_decode_bytes = msgspec.json.Decoder(EncodedBytes).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_time_of = lru_cache(maxsize=1024)(from_text)
_FIELD = re.compile(r"at `\$\.(\w+)|field `(\w+)`")


def parse(line: bytes) -> InputRecord:
    field = None
    try:
        found = _decode(line)
        field = "value"
        value = _value(bytes(found.value))
        field = "time"
        time_ns = _time(found.time) if found.time is not None else None
    except msgspec.ValidationError as error:
        named = _FIELD.search(str(error))
        raise BadLine(str(error).partition(" - at `")[0], field or ((named[1] or named[2]) if named else None))
    except msgspec.DecodeError as error:
        raise BadLine(f"not JSON: {error}", field)
    except UnicodeDecodeError as error:
        raise BadLine(f'not UTF-8 ({error.reason}); bytes go in as {{"base64": …}}', field)
    except RecursionError:
        raise BadLine("nested too deeply", field)
    except BadRequest as error:
        raise BadLine(str(error).rstrip("."), field)
    headers = found.headers
    pairs = headers.items() if isinstance(headers, dict) else headers or ()
    key = None if found.key is None else _bytes(found.key)
    return InputRecord(value, key, tuple((_bytes(name), _bytes(content)) for name, content in pairs), time_ns)


def _value(raw: bytes) -> bytes | None:
    """A string is its text; an object with nothing but base64 is its bytes; other JSON stays JSON, without spaces."""
    if raw[:1] == b'"':
        return _decode_text(raw).encode()
    if raw == b"null":
        return None
    if raw[:1] == b"{" and b'"base64"' in raw and _decode_fields(raw).keys() == {"base64"}:
        return _decode_bytes(raw).base64
    raw.decode()  # what is not UTF-8 would become a value that no reader can show as JSON
    return msgspec.json.format(raw, indent=-1)


def _time(given: int | str) -> int:
    time_ns = given if isinstance(given, int) else _time_of(given)
    if not -TIME_BOUND < time_ns < TIME_BOUND:
        raise BadRequest("outside what nanoseconds since 1970 can hold")
    return time_ns


def _bytes(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else text.base64


_time_text = lru_cache(maxsize=1024)(to_text)  # the records of a batch often have one time
_encode_lines = msgspec.json.Encoder().encode_lines


def as_lines(records: Iterable[Record], partition: int | None = None) -> bytes:
    place = {} if partition is None else {"partition": partition}
    return _encode_lines([place | _as_dictionary(record) for record in records])


def _as_dictionary(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "time": _time_text(record.time_ns),
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": _headers(record.headers),
    }


def _text(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _headers(pairs: tuple[Header, ...]) -> dict[str, Any] | list[Any]:
    """An object where that loses nothing; pairs where a name is there twice or is not UTF-8."""
    texts = [(_text(name), _text(content)) for name, content in pairs]
    names = [name for name, _ in texts if isinstance(name, str)]
    if len(set(names)) == len(texts):
        return {name: content for name, content in texts if isinstance(name, str)}
    return texts
