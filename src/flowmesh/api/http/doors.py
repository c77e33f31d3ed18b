"""Who has come in before: tokens that were proven and streams that were opened to them, looked at again each time.

Keys are hashes, so no secret is kept here, and finding one tells nothing about another by the time it takes. The
address is part of them: whoever guesses from elsewhere does not come in by a door that the holder of the token opened.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from flowmesh.api.admission import Admission, Principal
from flowmesh.api.http.bounds import DOORS_MAX, PRINCIPALS_MAX
from flowmesh.api.http.exchange import Exchange
from flowmesh.api.service import Service
from flowmesh.base.errors import Unauthenticated
from flowmesh.catalog.model import StreamKey
from flowmesh.node.streams import OpenStream

_SCHEME = b"bearer "


class Door(NamedTuple):
    """An append path that a principal was let through."""

    principal: Principal
    key: StreamKey
    opened: OpenStream


class Doors:
    def __init__(self, service: Service, admission: Admission) -> None:
        self._service = service
        self._admission = admission
        self._principals: dict[bytes, Principal] = {}
        self._doors: dict[bytes, Door] = {}

    def principal(self, exchange: Exchange) -> Principal:
        """The holder of the request's token. Proven at first sight, and afterwards whenever the catalog changes."""
        header = exchange.headers.get(b"authorization")
        if header is None:
            return self._admission.authenticate(None, exchange.peer)
        known_as = sha256(b"%b %b" % (exchange.peer.encode(), header)).digest()
        known = self._principals.get(known_as)
        if known is not None:
            try:
                principal = self._admission.still_good(known)
            except Unauthenticated:
                del self._principals[known_as]
            else:
                if principal is not known:
                    self._principals[known_as] = principal
                return principal
        principal = self._admission.authenticate(_token(header), exchange.peer)
        if len(self._principals) >= PRINCIPALS_MAX:
            del self._principals[next(iter(self._principals))]
        self._principals[known_as] = principal
        return principal

    def find(self, exchange: Exchange) -> OpenStream | None:
        """The stream behind an append path, if this token went there before and nothing has changed since."""
        door = self._doors.get(_door_name(exchange))
        if door is None or self._service.node.streams.get(door.key) is not door.opened:
            return None
        try:
            return door.opened if self._admission.still_good(door.principal) is door.principal else None
        except Unauthenticated:
            return None

    def remember(self, exchange: Exchange, principal: Principal, key: StreamKey, opened: OpenStream) -> None:
        if len(self._doors) >= DOORS_MAX:
            del self._doors[next(iter(self._doors))]
        self._doors[_door_name(exchange)] = Door(principal, key, opened)


def _door_name(exchange: Exchange) -> bytes:
    token = exchange.headers.get(b"authorization", b"")
    path: bytes = exchange.scope["raw_path"]
    return sha256(b"%b %d %b%b" % (exchange.peer.encode(), len(token), token, path)).digest()


def _token(header: bytes) -> str:
    """What stands after `Bearer`; an empty text, which no token is, for anything else."""
    if header[: len(_SCHEME)].lower() != _SCHEME:
        return ""
    return header[len(_SCHEME) :].strip().decode("latin-1")
