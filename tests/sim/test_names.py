"""Which names a power cut leaves, for every kind of change that a directory sees."""

from collections.abc import Callable

import pytest

from flowmesh.sim.disk import SimDisk

SEEDS = 60


def put(disk: SimDisk, path: str, data: bytes) -> None:
    file = disk.open(path, write=True, create=True)
    file.write(0, [data])
    file.sync()


def base(seed: int = 0) -> SimDisk:
    """`/a/old` and the empty `/b` are durable."""
    disk = SimDisk(seed)
    disk.make_directory("/a")
    disk.make_directory("/b")
    disk.sync_directory("/")
    put(disk, "/a/old", b"old")
    disk.sync_directory("/a")
    return disk


def outcomes(act: Callable[[SimDisk], object]) -> list[dict[str, bytes]]:
    found: list[dict[str, bytes]] = []
    for seed in range(SEEDS):
        disk = base(seed)
        act(disk)
        after = disk.crash().files()
        if after not in found:
            found.append(after)
    return sorted(found, key=lambda files: sorted(files.items()))


def test_an_unsynced_create_may_vanish_with_its_synced_data() -> None:
    def act(disk: SimDisk) -> None:
        put(disk, "/a/new", b"new")

    assert outcomes(act) == [{"/a/new": b"new", "/a/old": b"old"}, {"/a/old": b"old"}]
    disk = base()
    act(disk)
    assert disk.crash("lose_all").files() == {"/a/old": b"old"}
    assert disk.crash("keep_all").files() == {"/a/new": b"new", "/a/old": b"old"}
    assert disk.crash("keep_names_lose_data").files() == {"/a/new": b"new", "/a/old": b"old"}


def test_a_synced_create_stays() -> None:
    disk = base()
    disk.open("/a/new", write=True, create=True).write(0, [b"lost"])
    disk.sync_directory("/a")
    assert disk.crash("lose_all").files() == {"/a/new": b"", "/a/old": b"old"}


def test_syncing_another_directory_does_not_count() -> None:
    disk = base()
    put(disk, "/a/new", b"new")
    disk.sync_directory("/")
    disk.sync_directory("/b")
    assert disk.crash("lose_all").files() == {"/a/old": b"old"}


def test_an_unsynced_remove_may_come_back() -> None:
    assert outcomes(lambda disk: disk.remove("/a/old")) == [{}, {"/a/old": b"old"}]
    disk = base()
    disk.remove("/a/old")
    assert disk.crash("lose_all").files() == {"/a/old": b"old"}
    assert disk.crash("keep_all").files() == {}
    disk = base()
    disk.remove("/a/old")
    disk.sync_directory("/a")
    assert disk.crash("lose_all").files() == {}


@pytest.mark.parametrize("target", ["/a/new", "/b/new"])
def test_a_rename_is_done_or_undone_and_nothing_between(target: str) -> None:
    found = outcomes(lambda disk: disk.rename("/a/old", target))
    assert len(found) == 2
    assert {"/a/old": b"old"} in found
    assert {target: b"old"} in found


def test_a_replacing_rename_never_leaves_the_name_missing() -> None:
    def act(disk: SimDisk) -> None:
        put(disk, "/a/old.tmp", b"new")
        disk.rename("/a/old.tmp", "/a/old")

    assert outcomes(act) == [
        {"/a/old": b"new"},
        {"/a/old": b"old"},
        {"/a/old": b"old", "/a/old.tmp": b"new"},
    ]
    disk = base()
    act(disk)
    disk.sync_directory("/a")
    assert disk.crash("lose_all").files() == {"/a/old": b"new"}


def test_a_replacing_rename_without_sync_of_the_data_leaves_an_empty_file() -> None:
    disk = base()
    disk.open("/a/old.tmp", write=True, create=True).write(0, [b"new"])
    disk.rename("/a/old.tmp", "/a/old")
    assert disk.crash("keep_names_lose_data").files() == {"/a/old": b""}


def test_a_rename_between_directories_needs_both_synced() -> None:
    for synced in ("/a", "/b"):
        disk = base()
        disk.rename("/a/old", "/b/new")
        disk.sync_directory(synced)
        assert disk.crash("lose_all").files() == {"/a/old": b"old"}
    disk = base()
    disk.rename("/a/old", "/b/new")
    disk.sync_directory("/b")
    disk.sync_directory("/a")
    assert disk.crash("lose_all").files() == {"/b/new": b"old"}


def test_a_later_change_of_a_name_brings_the_earlier_ones_along() -> None:
    disk = base()
    disk.rename("/a/old", "/b/new")
    put(disk, "/a/old", b"newer")
    disk.sync_directory("/a")
    assert disk.crash("lose_all").files() == {"/a/old": b"newer", "/b/new": b"old"}


def test_no_file_is_ever_lost_by_moving_it_about() -> None:
    def act(disk: SimDisk) -> None:
        disk.rename("/a/old", "/b/x")
        put(disk, "/a/old", b"second")
        disk.rename("/a/old", "/a/y")
        disk.rename("/b/x", "/a/old")

    for files in outcomes(act):
        assert list(files.values()).count(b"old") == 1


def test_changes_of_different_names_overtake_each_other() -> None:
    def act(disk: SimDisk) -> None:
        put(disk, "/a/first", b"")
        put(disk, "/a/second", b"")

    found = [sorted(files) for files in outcomes(act)]
    assert ["/a/old", "/a/second"] in found
    assert ["/a/first", "/a/old"] in found


def test_a_file_in_an_unsynced_directory_is_lost_with_it() -> None:
    def act(disk: SimDisk) -> None:
        disk.make_directory("/b/c/d")
        put(disk, "/b/c/d/file", b"x")
        disk.sync_directory("/b/c/d")
        disk.sync_directory("/b/c")

    disk = base()
    act(disk)
    assert disk.durable_directories() == ["/", "/a", "/b"]
    assert disk.crash("lose_all").files() == {"/a/old": b"old"}
    disk = base()
    act(disk)
    disk.sync_directory("/b")
    assert disk.durable_directories() == ["/", "/a", "/b", "/b/c", "/b/c/d"]
    assert disk.crash("lose_all").files() == {"/a/old": b"old", "/b/c/d/file": b"x"}


def test_a_failed_directory_sync_is_not_made_good_by_the_next() -> None:
    disk = base()
    put(disk, "/a/new", b"new")
    disk.fail("sync_directory")
    with pytest.raises(OSError, match="Input/output"):
        disk.sync_directory("/a")
    disk.sync_directory("/a")
    assert sorted(disk.files()) == ["/a/new", "/a/old"]
    for mode_seed in range(10):
        assert disk.crash("random").files() == {"/a/old": b"old"}, mode_seed


def test_a_partly_failed_directory_sync_may_have_done_its_work() -> None:
    found = set()
    for seed in range(20):
        disk = base(seed)
        put(disk, "/a/new", b"new")
        disk.fail("sync_directory", partial=True)
        with pytest.raises(OSError, match="Input/output"):
            disk.sync_directory("/a")
        found.add("/a/new" in disk.durable_files())
    assert found == {True, False}
