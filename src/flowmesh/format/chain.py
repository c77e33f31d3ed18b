"""The identity of one partition's chain, and the hash that all its segments go back to. See docs/formats/chain.md."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import msgspec

from flowmesh.base.errors import BadRequest, CorruptData, UnsupportedVersion
from flowmesh.base.limits import CHAIN_LOCAL_ID_BYTES, CHAIN_NAME_BYTES_MAX
from flowmesh.format import timestamps

FORMAT = "flowmesh.chain"
VERSION = 1


class ChainIdentity(NamedTuple):
    local_id: bytes
    name: str
    created_ns: int

    @property
    def hash(self) -> bytes:
        return hashlib.sha256(self.local_id + self.name.encode() + timestamps.pack(self.created_ns)).digest()


def checked(local_id: bytes, name: str, created_ns: int) -> ChainIdentity:
    """An identity whose parts are inside their limits."""
    if len(local_id) != CHAIN_LOCAL_ID_BYTES:
        raise BadRequest(f"a chain's local id has {CHAIN_LOCAL_ID_BYTES} bytes, not {len(local_id)}.", field="local_id")
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= CHAIN_NAME_BYTES_MAX or not name.isprintable():
        raise BadRequest(
            f"a chain's name has 1 to {CHAIN_NAME_BYTES_MAX} bytes of printable text; this one has {size} bytes.",
            field="name",
        )
    if not 0 <= created_ns < 2**63:
        raise BadRequest("a chain cannot have been created before 1970 or after 2262.", field="created_ns")
    return ChainIdentity(local_id, name, created_ns)


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    version: int
    local_id: str
    name: str
    created_ns: int
    hash: str


def encode(identity: ChainIdentity) -> bytes:
    document = _Document(
        FORMAT, VERSION, identity.local_id.hex(), identity.name, identity.created_ns, identity.hash.hex()
    )
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def decode(data: bytes) -> ChainIdentity:
    require_version(data, FORMAT, VERSION)
    try:
        document = msgspec.json.decode(data, type=_Document)
        identity = checked(bytes.fromhex(document.local_id), document.name, document.created_ns)
    except (msgspec.MsgspecError, ValueError, BadRequest) as error:
        raise CorruptData(f"the chain file is damaged: {error}") from error
    if identity.hash.hex() != document.hash:
        raise CorruptData("the chain file is damaged: its hash does not cover its fields.")
    return identity


def require_version(data: bytes, name: str, version: int) -> dict[str, Any]:
    """The JSON object in `data` if it is of this format and version; a newer version is a refusal, not damage."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptData(f"the {name} file is damaged: {error}") from error
    if not isinstance(document, dict) or document.get("format") != name:
        raise CorruptData(f"the {name} file is damaged: it does not say it is one.")
    found = document.get("version")
    if not isinstance(found, int) or found != version:
        raise UnsupportedVersion(f"a {name} file of version {found!r} is unknown here; this is version {version}.")
    return document
