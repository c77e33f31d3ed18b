"""Where the sequential readers of a connection stand, so that their next read needs no look-up."""

from __future__ import annotations

from collections import OrderedDict

from flowmesh.log.view import Chunk, Cursor
from flowmesh.node.partition import StreamPartition

REMEMBERED_MAX = 64


class Cursors:
    """A hint and no more: one that is dropped costs a search in an index."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int], Cursor] = OrderedDict()

    def get(self, partition: StreamPartition, offset: int) -> Cursor | None:
        return self._known.pop((id(partition), offset), None)

    def keep(self, partition: StreamPartition, chunk: Chunk) -> None:
        if chunk.cursor is not None:
            self._known[id(partition), chunk.next_offset] = chunk.cursor
            if len(self._known) > REMEMBERED_MAX:
                self._known.popitem(last=False)
