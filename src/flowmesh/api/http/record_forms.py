"""Records as clients send them in JSON, and the rows they become. No wire object lives here, only bytes and values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec

from flowmesh.api.http.bounds import PIECE_BYTES, RECORD_HEADERS_MAX
from flowmesh.base.errors import BadRequest, TooLarge
from flowmesh.base.limits import HEADER_NAME_BYTES_MAX, RECORD_BYTES_MAX, REQUEST_RECORDS_MAX
from flowmesh.base.times import from_text
from flowmesh.format.columns import TIME_BOUND, Header


class Base64(msgspec.Struct, forbid_unknown_fields=True):
    """Bytes that are no text."""

    base64: bytes


Text: TypeAlias = str | Base64


class RecordForm(msgspec.Struct, forbid_unknown_fields=True):
    """One record as it is sent. A string is its UTF-8 bytes, other JSON is stored as compact JSON."""

    value: msgspec.Raw
    key: Text | None = None
    headers: dict[str, Text] | list[tuple[Text, Text]] | None = None
    time: int | str | None = None
    # What a read gives beside these. Taken so that what was read can be sent to another stream, and not used there.
    id: Any = None
    type: Any = None
    partition: Any = None
    offset: Any = None
    schema_version: Any = None


class PlainForm(msgspec.Struct, forbid_unknown_fields=True):
    """The most common record, and the cheapest to read: text, with or without a key."""

    value: str | None
    key: str | None = None


class RecordRow(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    time_ns: int | None = None


class Rows(NamedTuple):
    """Columns; one that no record uses is None."""

    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    headers: list[tuple[Header, ...]] | None = None
    times_ns: list[int | None] | None = None


_decode_form = msgspec.json.Decoder(RecordForm).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_base64 = msgspec.json.Decoder(Base64).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_form_lines = msgspec.json.Decoder(RecordForm).decode_lines
_form_list = msgspec.json.Decoder(list[RecordForm]).decode
_plain_lines = msgspec.json.Decoder(PlainForm).decode_lines
_plain_list = msgspec.json.Decoder(list[PlainForm]).decode
_time_of = lru_cache(maxsize=1024)(from_text)
_FAULTS = (msgspec.MsgspecError, UnicodeError, RecursionError, BadRequest)
_FIELD = re.compile(r"`\$\.(\w+)|field `([^`]{1,80})`")
_HINT = 'A record is {"value": …, "key": …, "headers": {…}, "time": …}; only the value must be there.'


def single(data: bytes) -> RecordRow:
    """One JSON object."""
    return _row(data, "")


def listed(data: bytes) -> Rows:
    """A JSON list of objects."""
    try:
        return _plain(_plain_list(data))
    except (msgspec.ValidationError, UnicodeEncodeError):
        pass  # some record has more to it
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}.", hint=_HINT)
    try:
        return transposed([_row_of(form) for form in _form_list(data)])
    except _FAULTS:
        pass  # some record is wrong; the longest way says which
    try:
        items = _decode_items(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is no list of records: {error}.", hint=_HINT)
    return transposed([_row(bytes(item), f"record {number}: ") for number, item in enumerate(items)])


def lines(data: bytes) -> Rows:
    """One JSON object on each line; empty lines mean nothing. Worked on in pieces, so that others get their turn."""
    whole = Rows([], [], [], [])
    first_line = 1
    for piece in _pieces(data):
        _extend(whole, _lines(piece, first_line))
        _require_count(len(whole.values))
        first_line += piece.count(b"\n")
    return _narrowed(whole)


def _pieces(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = len(data) if len(data) - start <= PIECE_BYTES else data.find(b"\n", start + PIECE_BYTES) + 1
        end = end or len(data)
        yield data[start:end]
        start = end


def _lines(piece: bytes, first_line: int) -> Rows:
    try:
        return _plain(_plain_lines(piece))
    except _FAULTS:
        pass  # some record has more to it
    try:
        return transposed([_row_of(form) for form in _form_lines(piece)])
    except _FAULTS:
        found = enumerate(piece.split(b"\n"), start=first_line)
        return transposed([_row(line, f"line {number}: ") for number, line in found if line.strip()])


def _plain(forms: list[PlainForm]) -> Rows:
    values = [None if form.value is None else form.value.encode() for form in forms]
    keys = [None if form.key is None else form.key.encode() for form in forms]
    return Rows(list(values), keys if any(key is not None for key in keys) else None)


def _row_of(form: RecordForm) -> RecordRow:
    return RecordRow(
        _value(bytes(form.value)),
        None if form.key is None else _bytes(form.key),
        () if form.headers is None else _headers(form.headers),
        None if form.time is None else _time(form.time),
    )


def _row(data: bytes, place: str) -> RecordRow:
    """The same for one record alone, and if something is wrong, what and where."""
    try:
        return _row_of(_decode_form(data))
    except msgspec.ValidationError as error:
        named = _FIELD.search(str(error))
        raise BadRequest(f"{place}{error}.", field=(named[1] or named[2]) if named else "value", hint=_HINT)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadRequest(f"{place}not JSON in UTF-8: {error}.", field="value", hint=_HINT)
    except RecursionError:
        raise BadRequest(f"{place}nested too deeply.", field="value")
    except BadRequest as error:
        raise BadRequest(f"{place}{error.message}", field=error.field, hint=error.hint)


def _value(raw: bytes) -> bytes | None:
    if raw[:1] == b'"':
        return _decode_text(raw).encode()
    if raw == b"null":
        return None
    if raw[:1] == b"{" and b'"base64"' in raw and _decode_fields(raw).keys() == {"base64"}:
        return _decode_base64(raw).base64
    raw.decode()  # what is not UTF-8 would become a value that no reader can show as JSON
    return msgspec.json.format(raw, indent=-1)


def _bytes(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else text.base64


def _headers(given: dict[str, Text] | list[tuple[Text, Text]]) -> tuple[Header, ...]:
    pairs = given.items() if isinstance(given, dict) else given
    return tuple((_bytes(name), _bytes(content)) for name, content in pairs)


def _time(given: int | str) -> int:
    time_ns = given if isinstance(given, int) else _time_of(given)
    if not -TIME_BOUND < time_ns < TIME_BOUND:
        raise BadRequest("a time outside what nanoseconds since 1970 can hold.", field="time")
    return time_ns


# --- rows and columns ---------------------------------------------------------------------------------------------


def transposed(rows: Sequence[RecordRow]) -> Rows:
    if not rows:
        return Rows([])
    values, keys, headers, times = zip(*rows, strict=True)
    return _narrowed(Rows(list(values), list(keys), list(headers), list(times)))


def _narrowed(rows: Rows) -> Rows:
    keys, headers, times = rows.keys or (), rows.headers or (), rows.times_ns or ()
    return Rows(
        rows.values,
        rows.keys if any(key is not None for key in keys) else None,
        rows.headers if any(headers) else None,
        rows.times_ns if any(time is not None for time in times) else None,
    )


def _extend(whole: Rows, part: Rows) -> None:
    """Adds to columns that are all there."""
    assert whole.keys is not None
    assert whole.headers is not None
    assert whole.times_ns is not None
    count = len(part.values)
    whole.values.extend(part.values)
    whole.keys.extend(part.keys or [None] * count)
    whole.headers.extend(part.headers or [()] * count)
    whole.times_ns.extend(part.times_ns or [None] * count)


# --- limits -------------------------------------------------------------------------------------------------------


def _require_count(count: int) -> None:
    if count > REQUEST_RECORDS_MAX:
        raise TooLarge(f"a request holds at most {REQUEST_RECORDS_MAX} records.", field="records")


def require_fit(rows: Rows) -> None:
    """Every record within its limits. What passes here cannot fail for its size in a log."""
    if not rows.values:
        raise BadRequest("there is no record in the body.", field="records", hint=_HINT)
    _require_count(len(rows.values))
    longest = max((len(value) for value in rows.values if value is not None), default=0)
    longest += max((len(key) for key in rows.keys or () if key is not None), default=0)
    if longest > RECORD_BYTES_MAX:  # the longest key need not be with the longest value: only then is it looked at
        keys: Sequence[bytes | None] = rows.keys or [None] * len(rows.values)
        for number, (value, key) in enumerate(zip(rows.values, keys, strict=True)):
            if len(value or b"") + len(key or b"") > RECORD_BYTES_MAX:
                raise TooLarge(f"record {number} is over the limit of {RECORD_BYTES_MAX} bytes.", field="value")
    for headers in rows.headers or ():
        require_headers(headers)


def require_headers(headers: Sequence[Header]) -> None:
    if len(headers) > RECORD_HEADERS_MAX:
        raise TooLarge(f"a record has at most {RECORD_HEADERS_MAX} headers.", field="headers")
    if any(len(name) > HEADER_NAME_BYTES_MAX for name, _ in headers):
        raise TooLarge(f"a header's name is over the limit of {HEADER_NAME_BYTES_MAX} bytes.", field="headers")
