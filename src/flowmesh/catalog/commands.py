"""What can be asked of the catalog. Names and settings were checked before; rules of the whole are the machine's."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from flowmesh.catalog.model import StreamSettings, Token

_SIZE = 1024
"""What a command may weigh in a writer's queue; they are small and rare."""


class AddTenant(NamedTuple):
    name: str
    size: int = _SIZE


class DropTenant(NamedTuple):
    name: str
    size: int = _SIZE


class AddStream(NamedTuple):
    tenant: str
    namespace: str
    name: str
    settings: StreamSettings
    size: int = _SIZE


class ChangeStream(NamedTuple):
    tenant: str
    namespace: str
    name: str
    settings: StreamSettings
    size: int = _SIZE


class DropStream(NamedTuple):
    tenant: str
    namespace: str
    name: str
    size: int = _SIZE


class ForgetStream(NamedTuple):
    """A deleted stream's directory is gone."""

    id: int
    size: int = _SIZE


class AddToken(NamedTuple):
    token: Token
    size: int = _SIZE


class SwapToken(NamedTuple):
    id: str
    successor: Token
    expires_ns: int
    """When the old one ends."""
    size: int = _SIZE


class DropToken(NamedTuple):
    id: str
    size: int = _SIZE


Command: TypeAlias = (
    AddTenant | DropTenant | AddStream | ChangeStream | DropStream | ForgetStream | AddToken | SwapToken | DropToken
)
