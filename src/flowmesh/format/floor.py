"""The floor: where a trimmed log now begins, and the hashes it hangs on. See docs/formats/floor.md."""

from __future__ import annotations

import hashlib
import struct

import msgspec

from flowmesh.base.errors import CorruptData
from flowmesh.base.limits import SEGMENT_NUMBER_MAX
from flowmesh.format.chain import require_version

FORMAT = "flowmesh.floor"
VERSION = 1
_FIELDS = struct.Struct("<QQ32s32s")


class Floor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Written and synced before a segment is removed: a segment missing below it was trimmed, above it was lost."""

    first_segment: int
    start_offset: int
    previous_segment_hash: str
    previous_block_hash: str


def encode(floor: Floor) -> bytes:
    hashes = bytes.fromhex(floor.previous_segment_hash), bytes.fromhex(floor.previous_block_hash)
    fields = msgspec.to_builtins(floor)
    body = {"format": FORMAT, "version": VERSION, **fields, "hash": _hash(floor, *hashes)}
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"


def decode(data: bytes) -> Floor:
    document = require_version(data, FORMAT, VERSION)
    fields = {key: value for key, value in document.items() if key not in ("format", "version", "hash")}
    try:
        floor = msgspec.convert(fields, Floor)
        hashes = bytes.fromhex(floor.previous_segment_hash), bytes.fromhex(floor.previous_block_hash)
    except (msgspec.MsgspecError, ValueError) as error:
        raise CorruptData(f"the floor file is damaged: {error}") from error
    if not 1 <= floor.first_segment <= SEGMENT_NUMBER_MAX or not 0 <= floor.start_offset < 2**63:
        raise CorruptData("the floor file is damaged: a field is outside its range.")
    if [value.hex() for value in hashes] != [floor.previous_segment_hash, floor.previous_block_hash]:
        raise CorruptData("the floor file is damaged: a hash is 64 small hex digits.")
    # A floor read one too high would let recovery finish a trim that nobody asked for, so a flipped digit must show.
    if [len(value) for value in hashes] != [32, 32] or document.get("hash") != _hash(floor, *hashes):
        raise CorruptData("the floor file is damaged: its hash does not cover its fields.")
    return floor


def _hash(floor: Floor, previous_segment_hash: bytes, previous_block_hash: bytes) -> str:
    fields = _FIELDS.pack(floor.first_segment, floor.start_offset, previous_segment_hash, previous_block_hash)
    return hashlib.sha256(fields).hexdigest()
