"""The forms in which records are given, and which of them a client asked for."""

from __future__ import annotations

from flowmesh.api.http.exchange import JSON
from flowmesh.api.http.problems import NotAcceptable

NDJSON = b"application/x-ndjson"
ARROW = b"application/vnd.apache.arrow.stream"
EVENTS = b"text/event-stream"
FORMS = (JSON, NDJSON, ARROW, EVENTS)
_ANY = (b"*/*", b"application/*")
_ACCEPT_BYTES_MAX = 2_000


def negotiated(accept: bytes | None) -> bytes:
    """The form that the client prefers, JSON when it does not care; of two that it likes alike, the first it named."""
    if accept is None or accept in _ANY:
        return JSON
    best, liking = b"", 0.0
    for part in accept[:_ACCEPT_BYTES_MAX].split(b","):
        name, *parameters = [piece.strip().lower() for piece in part.split(b";")]
        form = JSON if name in _ANY else name
        weight = _weight(parameters)
        if form in FORMS and weight > liking:
            best, liking = form, weight
    if not best:
        raise NotAcceptable(
            "records are not given in a form that this request accepts.",
            field="accept",
            hint=f"Accept {', '.join(form.decode() for form in FORMS)}.",
        )
    return best


def _weight(parameters: list[bytes]) -> float:
    for parameter in parameters:
        if parameter.startswith(b"q="):
            try:
                return min(float(parameter[2:]), 1.0)
            except ValueError:
                return 0.0
    return 1.0
