"""The tail cache: a window over the newest entries that readers keep while the writer moves on."""

from __future__ import annotations

from flowmesh.format import batch as batches
from flowmesh.format import block
from flowmesh.format import segment as segment_format
from flowmesh.format.segment import SIZE, SegmentHeader
from flowmesh.log.tail import NO_TAIL, TailCache, TailView
from tests.log.damage import CHAIN, batch, values_of, written

FIRST = segment_format.decode(segment_format.encode(CHAIN.hash, bytes(32), bytes(32), 0, 0))
SECOND = segment_format.decode(segment_format.encode(CHAIN.hash, FIRST.hash, bytes(32), 0, 0))


def entry(offset: int) -> bytes:
    made = batch(offset)
    return block.encode_entry(bytes(32), 0, SIZE, batches.stamp(made.header, offset, 0, 0), made.body)


ENTRY_BYTES = len(entry(0))


def add(cache: TailCache, *offsets: int, segment: SegmentHeader = FIRST) -> None:
    for offset in offsets:
        cache.add(segment, offset, SIZE, entry(offset))


def served(view: TailView, offset: int, bytes_max: int = 10**6) -> dict[int, bytes | None]:
    return values_of(view.read(offset, bytes_max))


def test_what_is_cached_is_served_from_the_block_that_holds_the_offset() -> None:
    cache = TailCache(10**6)
    add(cache, 0, 2, 4)
    assert served(cache.view(), 3) == written(range(2, 6))
    assert served(cache.view(), 0, 2 * ENTRY_BYTES) == written(range(4))
    assert served(cache.view(), 0, 1) == written(range(2)), "one block at least"


def test_a_view_ends_where_it_was_taken() -> None:
    cache = TailCache(10**6)
    add(cache, 0)
    before = cache.view()
    add(cache, 2)
    assert served(before, 0) == written(range(2))
    assert served(cache.view(), 0) == written(range(4))


def test_the_oldest_entries_go_when_the_cache_is_full_and_then_read_as_a_miss() -> None:
    cache = TailCache(2 * ENTRY_BYTES)
    add(cache, 0, 2)
    before = cache.view()
    add(cache, 4)
    assert served(before, 0) == {}
    assert served(before, 2) == written(range(2, 4))
    assert served(cache.view(), 1) == {}
    assert served(cache.view(), 2) == written(range(2, 6))


def test_an_entry_larger_than_the_cache_is_not_kept() -> None:
    cache = TailCache(ENTRY_BYTES - 1)
    add(cache, 0, 2)
    assert served(cache.view(), 0) == served(cache.view(), 2) == {}


def test_a_read_ends_with_its_segment() -> None:
    cache = TailCache(10**6)
    add(cache, 0, 2)
    add(cache, 4, segment=SECOND)
    assert served(cache.view(), 0) == written(range(4))
    assert served(cache.view(), 4) == written(range(4, 6))


def test_the_lists_do_not_grow_without_bound_and_old_views_outlive_their_renewal() -> None:
    cache = TailCache(10 * ENTRY_BYTES)
    add(cache, *range(0, 10, 2))
    old = cache.view()
    assert served(old, 0) == written(range(10))
    longest = 0
    for offset in range(10, 20_000, 2):
        add(cache, offset)
        view = cache.view()
        longest = max(longest, len(cache))
        assert served(view, offset) == written(range(offset, offset + 2))
    assert longest < 2100
    assert served(old, 0) == {}


def test_no_tail_serves_nothing() -> None:
    assert NO_TAIL.read(0, 100) == []
