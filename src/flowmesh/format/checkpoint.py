"""A signed checkpoint: proof, kept elsewhere, of what a log held. See docs/formats/checkpoint.md."""

from __future__ import annotations

import struct

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from flowmesh.base.errors import CorruptData
from flowmesh.format import timestamps
from flowmesh.format.chain import require_version

FORMAT = "flowmesh.checkpoint"
VERSION = 1
_DOMAIN = b"flowmesh.checkpoint.v1\n"
_OFFSET = struct.Struct("<Q")


class Checkpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """At `time_ns` the chain held `end_offset` records, and its last block's hash was `block_hash`. Hashes in hex."""

    chain_hash: str
    end_offset: int
    block_hash: str
    time_ns: int
    public_key: str
    signature: str


def sign(key: Ed25519PrivateKey, chain_hash: bytes, end_offset: int, block_hash: bytes, time_ns: int) -> Checkpoint:
    signature = key.sign(_message(chain_hash, end_offset, block_hash, time_ns))
    public_key = key.public_key().public_bytes_raw().hex()
    return Checkpoint(chain_hash.hex(), end_offset, block_hash.hex(), time_ns, public_key, signature.hex())


def _message(chain_hash: bytes, end_offset: int, block_hash: bytes, time_ns: int) -> bytes:
    return b"".join((_DOMAIN, chain_hash, _OFFSET.pack(end_offset), block_hash, timestamps.pack(time_ns)))


def encode(checkpoint: Checkpoint) -> bytes:
    body = {"format": FORMAT, "version": VERSION, **msgspec.to_builtins(checkpoint)}
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"


def decode(data: bytes, public_key: bytes | None = None) -> Checkpoint:
    """The checkpoint if its signature holds, and, where a key is given, if that key made it."""
    document = require_version(data, FORMAT, VERSION)
    fields = {key: value for key, value in document.items() if key not in ("format", "version")}
    try:
        checkpoint = msgspec.convert(fields, Checkpoint)
        signer = bytes.fromhex(checkpoint.public_key)
        hashes = bytes.fromhex(checkpoint.chain_hash), bytes.fromhex(checkpoint.block_hash)
        # The signed message has no lengths in it: a byte moved from one field into the next would verify.
        if [len(value) for value in hashes] != [32, 32]:
            raise CorruptData("the checkpoint file is damaged: a hash has 32 bytes.")
        message = _message(hashes[0], checkpoint.end_offset, hashes[1], checkpoint.time_ns)
        Ed25519PublicKey.from_public_bytes(signer).verify(bytes.fromhex(checkpoint.signature), message)
    except (msgspec.MsgspecError, ValueError, struct.error) as error:
        raise CorruptData(f"the checkpoint file is damaged: {error}") from error
    except InvalidSignature as error:
        raise CorruptData("the checkpoint's signature does not match its fields.") from error
    if public_key is not None and signer != public_key:
        raise CorruptData("the checkpoint was signed by another key than the one you trust.")
    return checkpoint
