"""Where a node is and how to get in: the address as users write it, and what goes with it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from flowmesh.base.errors import BadRequest

DEFAULT_PORT = 7401
_HINT = f"Write flowmesh://host:port, or flowmeshs://host:port for TLS; the port is that of frames, {DEFAULT_PORT}."


@dataclass(frozen=True, slots=True)
class NodeAddress:
    host: str
    port: int
    tls: ssl.SSLContext | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'flowmeshs' if self.tls else 'flowmesh'}://{host}:{self.port}"


def parse_address(url: str, ca_file: str | Path | None = None, tls: ssl.SSLContext | None = None) -> NodeAddress:
    """`ca_file` names the authorities to trust instead of the system's; `tls` brings a whole context of one's own."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadRequest(f"{url[:80]!r} is no address: {error}", field="url", hint=_HINT) from error
    if parts.scheme not in ("flowmesh", "flowmeshs") or not host or parts.path not in ("", "/") or parts.username:
        raise BadRequest(f"{url[:80]!r} is no address of a node.", field="url", hint=_HINT)
    if parts.scheme == "flowmesh":
        if ca_file is not None or tls is not None:
            raise BadRequest("flowmesh:// goes without TLS; use flowmeshs://.", field="url")
        return NodeAddress(host, port or DEFAULT_PORT)
    if tls is None:
        tls = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
    return NodeAddress(host, port or DEFAULT_PORT, tls)
