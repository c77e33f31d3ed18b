"""Which node a command talks to, and with which token: options over environment over the chosen context over what a
node on this machine leaves in its data directory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from flowmesh.base.errors import BadRequest, NotFound, Unauthenticated
from flowmesh.cli import contexts
from flowmesh.cli.connection_options import Asked
from flowmesh.cli.contexts import NodeContext

LOCAL_URL = "flowmesh://127.0.0.1:7401"
LOCAL_TOKEN_FILE = Path("flowmesh-data/admin.token")
_TOKEN_BYTES_MAX = 4096
_NO_TOKEN = "Log in with 'flowmesh login --url flowmesh://host:7401 --token-file FILE', or give --token-file."


class StreamPath(NamedTuple):
    tenant: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(self)


def find(asked: Asked) -> NodeContext:
    """The node that is meant. A token goes only to the node that it was given for."""
    known = contexts.load()
    name = asked.context or known.current
    context = known.find(name) if name is not None and (asked.context or not asked.is_complete) else None
    token = given_token(asked)
    if context is None:
        return _without_context(asked, token)
    if asked.url is not None and asked.url != context.url and token is None:
        raise BadRequest(
            f"context {name!r} is for {context.url}, and its token is not sent to {asked.url}.",
            field="url",
            hint="Give the token of that node with --token-file, or log in to it.",
        )
    return NodeContext(
        asked.url or context.url,
        token or context.token,
        asked.ca_file or context.ca_file,
        context.tenant,
        context.namespace,
    )


def given_token(asked: Asked) -> str | None:
    """What --token or --token-file say; `-` reads it from standard input."""
    if asked.token is not None and asked.token_file is not None:
        raise BadRequest("--token and --token-file exclude each other.", field="token")
    if asked.token == "-":
        return _checked(sys.stdin.read(_TOKEN_BYTES_MAX), "standard input")
    if asked.token_file is not None:
        return _of_file(Path(asked.token_file))
    return None if asked.token is None else _checked(asked.token, "--token")


def path_of(context: NodeContext, name: str) -> StreamPath:
    """`name`, `namespace/name` or `tenant/namespace/name`; what is left out is the context's."""
    parts = name.split("/")
    if not 1 <= len(parts) <= 3:
        raise BadRequest(f"{name[:80]!r} is no stream.", field="name", hint="Write name, or namespace/name.")
    return StreamPath(*[context.tenant, context.namespace][: 3 - len(parts)], *parts)


def _without_context(asked: Asked, token: str | None) -> NodeContext:
    url = asked.url or LOCAL_URL
    if token is None and url == LOCAL_URL and LOCAL_TOKEN_FILE.is_file():
        token = _of_file(LOCAL_TOKEN_FILE)
    if token is None:
        raise Unauthenticated(f"there is no token for {url}, and no context that has one.", hint=_NO_TOKEN)
    return NodeContext(url, token, asked.ca_file)


def _of_file(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as stream:
            return _checked(stream.read(_TOKEN_BYTES_MAX), str(file))
    except UnicodeDecodeError:
        raise BadRequest(f"{file} holds no token.", field="token")
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}.", field="token")


def _checked(text: str, source: str) -> str:
    token = text.strip()
    if "." not in token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadRequest(f"{source} holds no token.", field="token", hint="A token reads id.secret.")
    return token
