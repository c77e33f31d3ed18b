"""What a power cut leaves of one file: each outcome that is promised turns up, and nothing else ever does."""

import random
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from flowmesh.sim.volatile import SECTOR_BYTES, Edit, FileContent

SEEDS = 400

EDITS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 3000), st.binary(min_size=1, max_size=1500)),
        st.tuples(st.integers(0, 4000), st.none()),
    ),
    max_size=8,
)


def content_of(synced: list[Edit], unsynced: list[Edit]) -> FileContent:
    content = FileContent()
    edit(content, synced)
    content.sync()
    edit(content, unsynced)
    return content


def edit(content: FileContent, edits: list[Edit]) -> None:
    for position, data in edits:
        if data is None:
            content.truncate(position)
        else:
            content.write(position, data)


def outcomes(content: FileContent) -> list[bytes]:
    return [bytes(content.after_power_cut(random.Random(seed))) for seed in range(SEEDS)]


def sectors(data: bytes, count: int) -> Iterator[bytes]:
    padded = data.ljust(count * SECTOR_BYTES, b"\0")
    for number in range(count):
        yield padded[number * SECTOR_BYTES : (number + 1) * SECTOR_BYTES]


@given(EDITS, EDITS, st.integers(0, 2**32))
def test_each_sector_is_as_it_once_was(synced: list[Edit], unsynced: list[Edit], seed: int) -> None:
    content = content_of(synced, unsynced)
    versions = [bytes(content.durable)]
    replay = content_of(synced, [])
    for one in unsynced:
        edit(replay, [one])
        versions.append(bytes(replay.visible))
    assert versions[-1] == bytes(content.visible)

    after = bytes(content.after_power_cut(random.Random(seed)))

    assert len(after) in {len(version) for version in versions}
    count = -(-len(after) // SECTOR_BYTES)
    possible = list(zip(*(sectors(version, count) for version in versions), strict=True))
    for number, sector in enumerate(sectors(after, count)):
        space = len(after) - number * SECTOR_BYTES
        if number * SECTOR_BYTES < len(content.durable):
            assert sector[:space] in {version[:space] for version in possible[number]}


@given(EDITS, EDITS)
def test_sync_makes_all_of_it_durable(first: list[Edit], second: list[Edit]) -> None:
    content = content_of(first, second)
    content.sync()
    assert content.durable == content.visible
    assert content.after_power_cut(random.Random(0)) == content.visible


@given(EDITS, st.integers(0, 2**32))
def test_synced_bytes_survive_appends_that_were_not(edits: list[Edit], seed: int) -> None:
    content = content_of(edits, [])
    synced = bytes(content.durable)
    for _ in range(5):
        content.write(len(content.visible), b"tail" * 50)
    assert content.after_power_cut(random.Random(seed)).startswith(synced)


def test_an_append_may_vanish_survive_or_tear() -> None:
    old, new = b"o" * 1024, b"n" * 2048
    found = set(outcomes(content_of([(0, old)], [(1024, new)])))
    assert old in found
    assert old + new in found
    torn = {after for after in found if after not in (old, old + new)}
    assert all(after.startswith(old) and len(after) == len(old + new) for after in torn)
    assert old + new[:512] + bytes(1536) in torn
    assert old + bytes(512) + new[512:] in torn


def test_the_size_may_survive_without_the_data() -> None:
    assert bytes(2048) in outcomes(content_of([], [(0, b"n" * 2048)]))


def test_a_later_write_may_overtake_an_earlier_one() -> None:
    found = outcomes(content_of([], [(0, b"a" * 512), (512, b"b" * 512), (1024, b"c" * 512)]))
    assert bytes(512) + b"b" * 512 + b"c" * 512 in found
    assert b"a" * 512 + bytes(512) + b"c" * 512 in found


def test_an_overwrite_leaves_each_sector_old_or_new() -> None:
    found = set(outcomes(content_of([(0, b"o" * 1536)], [(0, b"n" * 1536)])))
    assert len(found) == 8
    assert {bytes(set(after[start : start + 512])) for after in found for start in (0, 512, 1024)} == {b"o", b"n"}


def test_within_a_sector_a_later_write_brings_the_earlier_along() -> None:
    found = set(outcomes(content_of([(0, b"....")], [(0, b"a"), (1, b"b"), (2, b"c")])))
    assert found == {b"....", b"a...", b"ab..", b"abc."}


def test_never_synced_sectors_may_hold_garbage_and_synced_ones_never() -> None:
    content = content_of([(0, b"o" * 700)], [(700, b"n" * 4000)])
    found = outcomes(content)
    assert all(after.startswith(b"o" * 700) for after in found)
    # The sector that holds the last synced byte is written whole, so it is no stranger to the medium either.
    assert all(set(after[700:1024]) <= set(b"n\0") for after in found)
    strange = [after for after in found if set(after[1024:]) - set(b"n\0")]
    assert 0 < len(strange) < SEEDS / 4


def test_an_unsynced_truncation_may_be_undone() -> None:
    found = set(outcomes(content_of([(0, b"o" * 1024)], [(100, None)])))
    assert b"o" * 1024 in found
    assert b"o" * 100 in found
    assert all(after[:100] == b"o" * 100 for after in found)


def test_a_truncated_tail_may_come_back_below_a_new_write() -> None:
    found = outcomes(content_of([(0, b"o" * 1536)], [(0, None), (0, b"n" * 512)]))
    assert b"n" * 512 + b"o" * 1024 in found
    assert b"n" * 512 + bytes(1024) in found
    assert b"n" * 512 in found


def test_a_failed_sync_is_not_made_good_by_the_next() -> None:
    content = content_of([(0, b"old")], [(3, b"lost")])
    content.forget_unsynced()
    content.sync()
    assert content.visible == b"oldlost"
    assert content.durable == b"old"
    content.write(7, b"new")
    content.sync()
    assert content.visible == b"oldlostnew"
    assert content.durable == b"old\0\0\0\0new"


def test_a_sync_that_fails_half_way_leaves_some_sectors() -> None:
    durable = set()
    for seed in range(SEEDS):
        content = content_of([], [(0, b"n" * 1024)])
        content.sync_partly(random.Random(seed))
        content.sync()
        assert content.visible == b"n" * 1024
        durable.add(bytes(content.durable))
    assert {b"", b"n" * 512 + bytes(512), bytes(512) + b"n" * 512, b"n" * 1024} <= durable


@given(EDITS, EDITS, st.integers(0, 5000), st.binary(min_size=1, max_size=700), st.booleans())
def test_rot_is_not_healed_by_a_later_sync(
    synced: list[Edit], unsynced: list[Edit], position: int, data: bytes, late: bool
) -> None:
    content = content_of(synced, unsynced)
    position = min(position, len(content.visible))
    data = data[: len(content.visible) - position]
    expected = bytes(content.visible[:position]) + data + bytes(content.visible[position + len(data) :])
    if late:
        content.sync()
    content.damage(position, data)
    assert content.visible == expected
    content.sync()
    assert content.visible == expected
    assert content.durable == expected


@given(EDITS, EDITS, st.integers(0, 5000))
def test_a_cut_is_not_healed_by_a_later_sync(synced: list[Edit], unsynced: list[Edit], size: int) -> None:
    content = content_of(synced, unsynced)
    expected = bytes(content.visible[:size])
    content.cut(size)
    assert content.visible == expected
    content.sync()
    assert len(content.durable) <= size


def test_a_sync_covers_what_was_written_before_it() -> None:
    content = content_of([], [(0, b"first")])

    class Slow(list[Edit]):
        """Stands for another thread that writes while the sync is under way."""

        def __getitem__(self, key):  # type: ignore[no-untyped-def]
            found = super().__getitem__(key)
            if isinstance(key, slice):
                content.write(5, b"second")
            return found

    content.unsynced = Slow(content.unsynced)
    content.sync()
    assert content.durable == b"first"
    assert list(content.unsynced) == [(5, b"second")]
