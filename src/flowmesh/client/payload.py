"""What a record may be made of, checked where a user hands it over: bytes, and nothing that had to be guessed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flowmesh.base.errors import BadRequest, FlowMeshError

_AS_TEXT = "Encode it first: text.encode()."
_AS_JSON = "Encode it first, as with json.dumps(value).encode()."
_HEADERS_HINT = "Headers are pairs of bytes, such as [(b'trace', b'a1')]."


def require_bytes(value: object, key: object = None, headers: object = ()) -> None:
    """In words that say what to do, before anything is sent."""
    for name, given in (("value", value), ("key", key)):
        if given is not None and not isinstance(given, bytes | bytearray | memoryview):
            hint = _AS_TEXT if isinstance(given, str) else _AS_JSON
            raise BadRequest(f"a {name} is bytes, not {type(given).__name__}.", field=name, hint=hint)
    if headers:
        _require_pairs(headers)


def explained(error: FlowMeshError, values: Sequence[object]) -> FlowMeshError:
    """Why a batch could not be made: looked for in its values only now, for looking costs as much as the making."""
    for value in values:
        try:
            require_bytes(value)
        except BadRequest as found:
            return found
    return error


def _require_pairs(headers: object) -> None:
    pairs = headers if isinstance(headers, Iterable) and not isinstance(headers, dict | str | bytes) else (None,)
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(part, bytes) for part in pair):
            raise BadRequest("these are no headers of a record.", field="headers", hint=_HEADERS_HINT)
