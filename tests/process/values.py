"""What the child programs write: values that follow from a seed and an offset alone, and the check of a whole log.

Nobody has to remember a value. Whoever knows the seed can say of every offset what must stand there, so the test keeps
only what was acknowledged.
"""

from __future__ import annotations

import hashlib
import struct

from flowmesh.format import columns
from flowmesh.format.batch import Batch
from flowmesh.log.scan import Block
from flowmesh.log.view import LogView

BATCH_RECORDS_MAX = 8
_KEY = struct.Struct("<QQ")


def value(seed: int, offset: int) -> bytes:
    """Mostly some hundred bytes, sometimes none, now and then 16 KiB."""
    digest = hashlib.blake2b(_KEY.pack(seed, offset)).digest()
    size = 16_384 if digest[1] == 0 else digest[0] * 4
    return (digest * (size // len(digest) + 1))[:size]


def batch(seed: int, offset: int, count: int) -> Batch:
    return columns.encode([value(seed, row) for row in range(offset, offset + count)])


def wrong_values(seed: int, block: Block) -> list[int]:
    """The offsets in this block that hold something else than they must."""
    records = columns.decode(block.batch).records()
    return [record.offset for record in records if record.value != value(seed, record.offset)]


def check_view(seed: int, view: LogView) -> int:
    """Reads a view from its start to its end; how many records it holds. Every one is right, and none is missing."""
    assert view.damage == ()
    expected = view.start_offset
    for block in view.blocks():
        assert block.base_offset == expected, f"offset {expected} is followed by {block.base_offset}"
        assert wrong_values(seed, block) == []
        expected = block.end_offset
    assert expected == view.end_offset, f"the view ends at {view.end_offset}, its blocks at {expected}"
    return expected - view.start_offset
