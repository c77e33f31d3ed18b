"""The options of every command that talks to a node."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

_TOKENS = frozenset({"token", "token_file"})


class Asked(NamedTuple):
    """What was said about the node on the command line and in the environment."""

    context: str | None = None
    url: str | None = None
    token: str | None = None
    token_file: str | None = None
    ca_file: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether a context has nothing to add."""
        return self.url is not None and (self.token is not None or self.token_file is not None)


_OPTIONS = (
    click.option("--context", envvar="FLOWMESH_CONTEXT", metavar="NAME", help="The context to use."),
    click.option("--url", envvar="FLOWMESH_URL", help="flowmesh://host:port, or flowmeshs:// for TLS."),
    click.option(
        "--token", envvar="FLOWMESH_TOKEN", help="The token; '-' reads it from standard input. Others may see it here."
    ),
    click.option("--token-file", envvar="FLOWMESH_TOKEN_FILE", metavar="FILE", help="The file that holds the token."),
    click.option("--ca-file", envvar="FLOWMESH_CA_FILE", metavar="FILE", help="Authorities to trust, as PEM."),
)


def connected(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options; the function is given what they say as its first argument."""

    @wraps(function)
    def call(**others: Any) -> None:
        function(_nearest(Asked(**{name: others.pop(name) for name in Asked._fields})), **others)

    for option in reversed(_OPTIONS):
        call = option(call)
    return call


def _nearest(asked: Asked) -> Asked:
    """What was typed beats the variables that say something else about the same: a token, or a whole node."""
    context = click.get_current_context()
    typed = {name for name in Asked._fields if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    beaten: set[str] = set()
    if typed & _TOKENS:
        beaten |= _TOKENS - typed
    if "context" in typed:
        beaten |= {"url", *_TOKENS} - typed
    return asked._replace(**dict.fromkeys(beaten))
