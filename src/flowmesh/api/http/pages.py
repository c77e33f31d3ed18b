"""What is there beside the operations: health, readiness, metrics, the OpenAPI document and a page to read it."""

from __future__ import annotations

from collections.abc import Callable

from flowmesh.api.http import manual, openapi
from flowmesh.api.http.exchange import JSON, Exchange
from flowmesh.api.http.problems import Headers, MethodUnknown
from flowmesh.api.observer import Observer
from flowmesh.api.service import Service
from flowmesh.base.errors import NotFound, Unavailable

Admit = Callable[[Exchange], None]
PATHS = ("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs")
_SAFE: Headers = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
_JSON: Headers = [(b"content-type", JSON), *_SAFE]


class Pages:
    def __init__(self, service: Service, observer: Observer) -> None:
        self._service = service
        self._render = getattr(observer, "render", None)
        self._pages = {
            b"/healthz": self._health,
            b"/readyz": self._readiness,
            b"/metrics": self._metrics,
            b"/openapi.json": self._openapi,
            b"/docs": self._manual,
        }

    async def answer(self, exchange: Exchange, admit: Admit) -> bool:
        """Answers if the path is one of these. `admit` raises for those who may not see what is not for everybody."""
        page = self._pages.get(exchange.scope["raw_path"])
        if page is None:
            return False
        if exchange.method not in ("GET", "HEAD"):
            raise MethodUnknown(exchange.method, ["GET", "HEAD"])
        headers, body = page(exchange, admit)
        await exchange.respond(200, headers, body)
        return True

    def _health(self, _exchange: Exchange, _admit: Admit) -> tuple[Headers, bytes]:
        return _JSON, b'{"status":"ok"}'

    def _readiness(self, _exchange: Exchange, _admit: Admit) -> tuple[Headers, bytes]:
        if self._service.draining:
            raise Unavailable("this node is stopping.", hint="Ask another node.")
        return _JSON, b'{"status":"ready"}'

    def _metrics(self, exchange: Exchange, admit: Admit) -> tuple[Headers, bytes]:
        admit(exchange)
        if self._render is None:
            raise NotFound("this node keeps no metrics.")
        body, content_type = self._render()
        return [(b"content-type", content_type.encode()), *_SAFE], body

    def _openapi(self, _exchange: Exchange, _admit: Admit) -> tuple[Headers, bytes]:
        return _JSON, openapi.encoded()

    def _manual(self, _exchange: Exchange, _admit: Admit) -> tuple[Headers, bytes]:
        headers: Headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-security-policy", manual.POLICY.encode()),
            (b"referrer-policy", b"no-referrer"),
            (b"x-frame-options", b"DENY"),
            (b"cross-origin-opener-policy", b"same-origin"),
            *_SAFE,
        ]
        return headers, manual.page()
