"""Tokens as text: `id.secret`. The id finds the record, the secret proves it; only the secret's hash is ever stored."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import NamedTuple

from flowmesh.ports.entropy import Entropy

_ID_BYTES = 10
_SECRET_BYTES = 32
_TEXT_MAX = 200
_TOKEN = re.compile(r"([a-z2-7]{16})\.(?=[a-z0-9_-]*[A-Z])[A-Za-z0-9_-]{8,}")
"""Names have no capitals, and secrets are as good as never without, so no name is taken for a token."""
_NO_HASH = hashlib.sha256(b"no token has this hash").digest()


class FreshToken(NamedTuple):
    id: str
    text: str
    """Shown once, to whoever asked for it, and stored nowhere."""
    secret_hash: bytes


def make(entropy: Entropy) -> FreshToken:
    identity = base64.b32encode(entropy.random_bytes(_ID_BYTES)).decode().lower()
    secret = base64.urlsafe_b64encode(entropy.random_bytes(_SECRET_BYTES)).decode().rstrip("=")
    return FreshToken(identity, f"{identity}.{secret}", hash_of(secret))


def split(text: str) -> tuple[str, str] | None:
    """Id and secret, or None for what cannot be a token."""
    identity, dot, secret = text.partition(".")
    if not dot or not identity or not secret or len(text) > _TEXT_MAX or not text.isascii():
        return None
    return identity, secret


def masked(text: str) -> str:
    """The text without the secrets of tokens that somebody put where a name or a value belongs."""
    return _TOKEN.sub(r"\1.…", text)


def hash_of(secret: str) -> bytes:
    """Plain SHA-256: the secret has 256 random bits, so there is nothing a slow hash would protect."""
    return hashlib.sha256(secret.encode()).digest()


def proves(secret: str, stored_hash: bytes | None) -> bool:
    """Whether the secret is the one of the record. Takes as long for a record that does not exist."""
    return hmac.compare_digest(hash_of(secret), stored_hash or _NO_HASH) and stored_hash is not None
