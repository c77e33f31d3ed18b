"""Blocks on their way out: entries as they stand in the log, behind a header that says where to go on."""

from __future__ import annotations

from flowmesh.api.frames import replies
from flowmesh.api.frames.caller import Caller
from flowmesh.format import frame
from flowmesh.format.block import segment_id
from flowmesh.format.frame import FrameKind
from flowmesh.log.scan import Block
from flowmesh.log.view import LogView
from flowmesh.operations.frames import BlocksRead

_JOIN_BYTES = 64 * 1024
"""Up to this average size entries are joined for the write; larger ones are handed over as they are."""


def limited(blocks: list[Block], offset: int, limit: int) -> list[Block]:
    """As many blocks as hold `limit` records from `offset` on: whole ones, and at least one."""
    for row, block in enumerate(blocks):
        if block.end_offset - offset >= limit:
            return blocks[: row + 1]
    return blocks


def send_blocks(
    caller: Caller,
    kind: FrameKind,
    code: int,
    correlation: int,
    blocks: list[Block],
    next_offset: int,
    view: LogView,
) -> None:
    """Entries as they stand in the log, so that whoever reads them can check them."""
    told = BlocksRead(next_offset, view.start_offset, view.end_offset, _segments(blocks))
    header = replies.encode_message(told)
    size = sum(len(block.entry) for block in blocks)
    pieces: list[bytes | memoryview] = [frame.encode_head(kind, code, correlation, header, size)]
    pieces += [block.entry for block in blocks]
    if size < _JOIN_BYTES * len(blocks) or not blocks:
        pieces = [b"".join(pieces)]
    caller.send_pieces(pieces)


def _segments(blocks: list[Block]) -> tuple[tuple[int, str], ...]:
    """What entries alone do not say: to which segments they belong. Nearly always to one."""
    if not blocks:
        return ()
    if blocks[0].segment is blocks[-1].segment:
        return ((blocks[0].base_offset, segment_id(blocks[0].segment.hash)),)
    found: dict[str, int] = {}
    for block in blocks:
        found.setdefault(segment_id(block.segment.hash), block.base_offset)
    return tuple((offset, segment) for segment, offset in found.items())
