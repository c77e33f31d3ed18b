"""The one way in, for every wire: authenticate, limit, authorise. What fails here never reaches the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

from flowmesh.access import tokens
from flowmesh.access.permissions import EVERYTHING, Grant
from flowmesh.access.throttle import Throttle
from flowmesh.base.errors import FlowMeshError, Forbidden, NotFound, TooManyRequests, Unauthenticated
from flowmesh.base.names import checked_name
from flowmesh.catalog.machine import CatalogMachine
from flowmesh.catalog.model import no_stream
from flowmesh.operations.messages import Request
from flowmesh.operations.table import Operation, Scope
from flowmesh.ports.clock import Clock

GUESSED_IDS = 64
"""Ids are counted in so many groups, so that whoever makes them up does not fill the memory."""
_ADDRESS_FIELDS = ("tenant", "namespace", "name")


class Principal(NamedTuple):
    """Who asks: a token that was good when the catalog had this version, until it expires."""

    token_id: str
    grant: Grant
    expires_ns: int | None
    catalog_version: int


class Denial(NamedTuple):
    """For the audit log. Never holds a secret."""

    operation: str
    peer: str
    token_id: str
    error: FlowMeshError


class Admission:
    def __init__(self, catalog: CatalogMachine, clock: Clock, audit: Callable[[Denial], None] | None = None) -> None:
        self._catalog = catalog
        self._clock = clock
        self._audit = audit
        self._guesses = Throttle()
        """Of ids as they were sent: what a guesser is told follows from these alone."""
        self._targets = Throttle()
        """Of tokens that exist."""

    def authenticate(self, text: str | None, peer: str) -> Principal:
        """The holder of a token. Failures are counted for each peer and token.

        Who fails is not told what was wrong, nor, by when it has to wait, whether there is a token of that id. Who has
        failed too often with a token is not let in by it for a while: that is where guessing would end.
        """
        now = self._clock.monotonic_ns()
        version = self._catalog.version
        identity, secret = (tokens.split(text) if text else None) or ("", "")
        record = self._catalog.state.tokens.get(identity)
        proven = tokens.proves(secret, record.secret_hash if record else None)
        if record is None or not proven or self._is_over(record.expires_ns):
            suspect = f"{peer} {crc32(identity.encode()) % GUESSED_IDS}"
            refused = self._guesses.refuses(suspect, now)
            if text:
                self._guesses.failed(suspect, now)
                if record is not None:
                    self._targets.failed(f"{peer} {record.id}", now)
            raise self._denied("authenticate", peer, "", _throttled() if refused else _unauthenticated())
        if self._targets.refuses(f"{peer} {record.id}", now):
            raise self._denied("authenticate", peer, "", _throttled())
        grant = Grant(record.tenant, record.namespaces, record.permissions)
        return Principal(record.id, grant, record.expires_ns, version)

    def still_good(self, principal: Principal) -> Principal:
        """The principal of a long connection, looked at again when the catalog has changed or its time is up."""
        # Read before the record: a change that comes in between is then seen by the next look.
        version = self._catalog.version
        if principal.catalog_version == version and not self._is_over(principal.expires_ns):
            return principal
        record = self._catalog.state.tokens.get(principal.token_id)
        if record is None or self._is_over(record.expires_ns):
            raise _unauthenticated()
        grant = Grant(record.tenant, record.namespaces, record.permissions)
        return Principal(record.id, grant, record.expires_ns, version)

    def authorise(self, principal: Principal, operation: Operation, request: Request, peer: str) -> None:
        """Whether the principal may do this here. What it may not see is not there, in exactly those words."""
        try:
            _require(principal.grant, operation, request)
        except (Forbidden, NotFound) as error:
            raise self._denied(operation.name, peer, principal.token_id, error)

    def _is_over(self, expires_ns: int | None) -> bool:
        return expires_ns is not None and self._clock.wall_ns() >= expires_ns

    def _denied(self, operation: str, peer: str, token_id: str, error: FlowMeshError) -> FlowMeshError:
        if self._audit is not None:
            self._audit(Denial(operation, peer, token_id, error))
        return error


def _require(grant: Grant, operation: Operation, request: Request) -> None:
    address = {name: value for name in _ADDRESS_FIELDS if isinstance(value := getattr(request, name, None), str)}
    for name, value in address.items():
        if not (name == "tenant" and value == EVERYTHING and operation.scope is Scope.TOKENS):
            checked_name(value, name)
    if operation.scope in (Scope.STREAM, Scope.NAMESPACE) and not grant.sees(address["tenant"], address["namespace"]):
        raise not_found(request)
    if operation.scope is Scope.TOKENS and "tenant" in address and not grant.sees(address["tenant"]):
        raise NotFound(f"there is no tenant {address['tenant']!r}.", field="tenant")
    if not grant.allows(operation.permission):
        raise Forbidden(
            f"this token does not allow {operation.name!r}.",
            hint=f"It needs the permission '{operation.permission.value}' (or 'admin').",
        )
    if operation.scope is Scope.NODE and operation.method != "GET" and not grant.is_operator:
        raise Forbidden(f"{operation.name!r} is for the operator of the node.", hint="Use a token whose tenant is '*'.")


def not_found(request: Request) -> NotFound:
    """The one answer for streams that are not there and for those of other tenants."""
    parts = [str(getattr(request, name)) for name in _ADDRESS_FIELDS if getattr(request, name, None) is not None]
    if len(parts) < len(_ADDRESS_FIELDS):
        return NotFound(f"there is no namespace {'/'.join(parts)!r}.", field="namespace")
    return no_stream("/".join(parts))


def _unauthenticated() -> Unauthenticated:
    return Unauthenticated(
        "this needs a token that this node knows.",
        hint="A token reads id.secret, after 'Authorization: Bearer' on HTTP; the first one is in admin.token in the "
        "node's data directory.",
    )


def _throttled() -> TooManyRequests:
    return TooManyRequests("too many failed attempts from this address.", hint="Wait a minute, then use a good token.")
