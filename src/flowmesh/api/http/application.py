"""The ASGI application: finds the operation, lets it in, runs it, and turns whatever goes wrong into a problem."""

from __future__ import annotations

import logging
from time import perf_counter

from starlette.types import Receive, Scope, Send

from flowmesh.api import administration
from flowmesh.api.admission import Admission, Principal
from flowmesh.api.http import appending, routes
from flowmesh.api.http.appending import Way
from flowmesh.api.http.bodies import Body, Budget, unfolded
from flowmesh.api.http.bounds import FORM_BYTES_MAX
from flowmesh.api.http.doors import Doors
from flowmesh.api.http.events import Follower
from flowmesh.api.http.exchange import ClientGone, Exchange
from flowmesh.api.http.gathering import Gathering
from flowmesh.api.http.outcomes import success_of
from flowmesh.api.http.pages import Pages
from flowmesh.api.http.problems import MediaTypeUnknown, MethodUnknown
from flowmesh.api.http.reading import Reader
from flowmesh.api.http.requests import request_from
from flowmesh.api.http.routes import Match
from flowmesh.api.http.workers import Workers
from flowmesh.api.observer import Observer
from flowmesh.api.service import Service
from flowmesh.base.errors import ErrorCode, FlowMeshError, Internal
from flowmesh.operations import messages
from flowmesh.operations.table import BY_NAME, Operation

logger = logging.getLogger("flowmesh.http")
UNROUTED = "unrouted"
_APPEND = BY_NAME["stream.append"]
_READ = BY_NAME["stream.read"]
_SUBSCRIBE = BY_NAME["stream.subscribe"]
_OK = "OK"


class Application:
    def __init__(self, service: Service, admission: Admission, observer: Observer) -> None:
        self._service = service
        self._admission = admission
        self._observer = observer
        self._doors = Doors(service, admission)
        self._workers = Workers()
        self._budget = Budget()
        self._way = Way(service, Gathering(service), self._workers, self._budget)
        self._pages = Pages(service, observer)
        self._reader = Reader(service, self._workers)
        self._follower = Follower(service, admission, self._workers)

    def close(self) -> None:
        self._workers.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = perf_counter()
        exchange = Exchange(scope, receive, send)
        name, outcome = UNROUTED, _OK
        try:
            opened = self._doors.find(exchange) if scope["method"] == "POST" else None
            if opened is not None:
                name = _APPEND.name
                await appending.append(exchange, opened, self._way)
            elif not await self._pages.answer(exchange, self._node_reader):
                found = routes.match(scope["raw_path"])
                operation = _operation(found, exchange.method)
                name = operation.name
                await self._run(exchange, operation, found.fields)
        except FlowMeshError as error:
            outcome = error.code.value
            await self._refuse(exchange, error)
        except ClientGone:
            outcome = ErrorCode.CLOSED.value
        except Exception:
            logger.exception("a request for %s failed", name)
            outcome = ErrorCode.INTERNAL.value
            await self._refuse(exchange, Internal("this went wrong inside the node.", hint="Its log says how."))
        finally:
            self._observer.operation(name, "http", perf_counter() - began, outcome)

    async def _refuse(self, exchange: Exchange, error: FlowMeshError) -> None:
        if not exchange.started:
            await exchange.refuse(error)

    async def _run(self, exchange: Exchange, operation: Operation, fields: dict[str, str]) -> None:
        principal = self._doors.principal(exchange)
        if operation is _APPEND:
            await self._append(exchange, principal, fields)
        elif operation is _READ:
            read = request_from(messages.ReadRecords, fields, exchange.query)
            self._admission.authorise(principal, operation, read, exchange.peer)
            if self._follower.is_wanted(exchange):
                await self._follower.follow_read(exchange, principal, read)
            else:
                await self._reader.read(exchange, read)
        elif operation is _SUBSCRIBE:
            subscribe = request_from(messages.Subscribe, fields, exchange.query)
            self._admission.authorise(principal, operation, subscribe, exchange.peer)
            await self._follower.follow(exchange, principal, subscribe)
        else:
            await self._administer(exchange, principal, operation, fields)

    async def _append(self, exchange: Exchange, principal: Principal, fields: dict[str, str]) -> None:
        """The first append on a path by a token; the next ones find the door open."""
        request = messages.AppendRecords(fields["tenant"], fields["namespace"], fields["name"])
        self._admission.authorise(principal, _APPEND, request, exchange.peer)
        key = (request.tenant, request.namespace, request.name)
        opened = self._service.node.stream(key)
        self._doors.remember(exchange, principal, key, opened)
        await appending.append(exchange, opened, self._way)

    async def _administer(
        self, exchange: Exchange, principal: Principal, operation: Operation, fields: dict[str, str]
    ) -> None:
        body = b""
        if operation.method != "GET":
            with Body(exchange, self._budget) as reading:
                body = await reading.read(FORM_BYTES_MAX)
            if body:
                _require_json(exchange.headers.get(b"content-type"))
                body = unfolded(body, exchange.headers.get(b"content-encoding"), FORM_BYTES_MAX)
        request = request_from(operation.request, fields, exchange.query, body)
        self._admission.authorise(principal, operation, request, exchange.peer)
        reply = await administration.execute(self._service, principal, operation, request)
        await exchange.reply(reply, success_of(operation))

    def _node_reader(self, exchange: Exchange) -> None:
        """For what is not in the table and still not for everybody."""
        principal = self._doors.principal(exchange)
        self._admission.authorise(principal, BY_NAME["node.describe"], messages.DescribeNode(), exchange.peer)


def _operation(found: Match, method: str) -> Operation:
    operation = found.methods.get(method)
    if operation is None:
        raise MethodUnknown(method, sorted(found.methods))
    return operation


def _require_json(content_type: bytes | None) -> None:
    if (content_type or b"").split(b";", 1)[0].strip().lower() != b"application/json":
        raise MediaTypeUnknown(
            f"a body of type {(content_type or b'')[:60].decode('latin-1')!r} is not understood here.",
            field="content-type",
            hint="Use application/json.",
        )
