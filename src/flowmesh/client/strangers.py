"""Whatever answers at an address and is no node that can be spoken with: told apart, and what to do instead."""

from __future__ import annotations

import ssl

from flowmesh.base.errors import BadRequest, FlowMeshError, Unavailable
from flowmesh.client.address import DEFAULT_PORT, NodeAddress

FIRST_WORDS_BYTES = 8
_ALERT, _TLS_MAJOR = 21, 3


def tls_fault(address: NodeAddress, error: ssl.SSLError) -> FlowMeshError:
    """Why a handshake failed. What a change of the address or of the trust would heal is not tried again."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return BadRequest(
            f"the certificate of {address} is not trusted: {error.verify_message}.",
            field="url",
            hint="Name the authority that signed it with ca_file (--ca-file).",
        )
    if error.reason == "WRONG_VERSION_NUMBER":
        return BadRequest(f"{address} does not speak TLS.", field="url", hint="Without TLS write flowmesh://host:port.")
    return Unavailable(f"{address} cannot be reached: {error}")


def stranger(address: NodeAddress, first_words: bytes) -> FlowMeshError | None:
    """Who it is that answered a hello with these bytes, where that can be told."""
    if first_words.startswith(b"HTTP/"):
        return BadRequest(
            f"{address} speaks HTTP, not frames.",
            field="url",
            hint=f"Use the port of frames, which the node named when it started: {DEFAULT_PORT} if none was chosen.",
        )
    if first_words[:2] == bytes((_ALERT, _TLS_MAJOR)):
        return BadRequest(f"{address} speaks TLS.", field="url", hint="Write flowmeshs://host:port.")
    return None


def silence(address: NodeAddress) -> FlowMeshError:
    """It took the connection and closed it without a word."""
    hint = None if address.tls else "A node with TLS does that: then write flowmeshs://."
    return Unavailable(f"{address} closed the connection without an answer.", hint=hint)
