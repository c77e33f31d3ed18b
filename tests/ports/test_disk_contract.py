"""What every `ports.Disk` does. Both answer the same cases, so neither drifts from the other."""

import errno
import shutil
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowmesh.host.disk import IOV_MAX, RealDisk
from flowmesh.ports.disk import Disk
from flowmesh.sim.disk import SimDisk


@dataclass(frozen=True)
class Place:
    disk: Disk
    root: str

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def put(self, name: str, data: bytes) -> str:
        file = self.disk.open(self.path(name), write=True, create=True)
        file.write(0, [data])
        file.close()
        return self.path(name)

    def get(self, name: str) -> bytes:
        file = self.disk.open(self.path(name))
        try:
            return file.read(0, file.size() + 1)
        finally:
            file.close()


@pytest.fixture(params=["real", "sim"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "real":
        return Place(RealDisk(), str(tmp_path))
    disk = SimDisk()
    disk.make_directory("/data")
    return Place(disk, "/data")


def raises(number: int, call: Callable[[], object]) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011  the number below is the match
        call()
    assert errno.errorcode[caught.value.errno or 0] == errno.errorcode[number]


def test_missing_file_is_enoent(place: Place) -> None:
    missing = place.path("missing")
    raises(errno.ENOENT, lambda: place.disk.open(missing))
    raises(errno.ENOENT, lambda: place.disk.open(missing, write=True))
    raises(errno.ENOENT, lambda: place.disk.remove(missing))
    raises(errno.ENOENT, lambda: place.disk.rename(missing, place.path("other")))
    raises(errno.ENOENT, lambda: place.disk.names(missing))
    raises(errno.ENOENT, lambda: place.disk.sync_directory(missing))
    raises(errno.ENOENT, lambda: place.disk.free_bytes(missing))
    assert not place.disk.exists(missing)


def test_missing_directory_is_enoent_even_to_create(place: Place) -> None:
    raises(errno.ENOENT, lambda: place.disk.open(place.path("no/file"), write=True, create=True))
    raises(errno.ENOENT, lambda: place.disk.lock(place.path("no/lock")))
    place.put("file", b"")
    raises(errno.ENOENT, lambda: place.disk.rename(place.path("file"), place.path("no/file")))


def test_a_file_is_no_directory(place: Place) -> None:
    path = place.put("file", b"x")
    raises(errno.ENOTDIR, lambda: place.disk.open(f"{path}/below", write=True, create=True))
    raises(errno.ENOTDIR, lambda: place.disk.names(path))
    raises(errno.ENOTDIR, lambda: place.disk.sync_directory(path))
    raises(errno.ENOTDIR, lambda: place.disk.make_directory(f"{path}/below"))
    raises(errno.EEXIST, lambda: place.disk.make_directory(path))
    assert not place.disk.exists(f"{path}/below")


def test_a_directory_is_no_file(place: Place) -> None:
    place.disk.make_directory(place.path("directory"))
    raises(errno.EISDIR, lambda: place.disk.open(place.path("directory"), write=True))
    raises(errno.EISDIR, lambda: place.disk.remove(place.path("directory")))
    raises(errno.EISDIR, lambda: place.disk.rename(place.put("file", b""), place.path("directory")))
    raises(errno.ENOTDIR, lambda: place.disk.rename(place.path("directory"), place.path("file")))
    raises(errno.EISDIR, lambda: place.disk.lock(place.path("directory")))


def test_read_is_short_only_at_the_end(place: Place) -> None:
    file = place.disk.open(place.put("file", b"0123456789"))
    assert file.read(0, 10) == b"0123456789"
    assert file.read(3, 4) == b"3456"
    assert file.read(8, 100) == b"89"
    assert file.read(10, 1) == b""
    assert file.read(1000, 1) == b""
    assert file.read(3, 0) == b""
    assert file.size() == 10


def test_negative_places_are_refused(place: Place) -> None:
    file = place.disk.open(place.put("file", b"0123456789"), write=True)
    raises(errno.EINVAL, lambda: file.read(-1, 1))
    raises(errno.EINVAL, lambda: file.write(-1, [b"x"]))
    raises(errno.EINVAL, lambda: file.truncate(-1))
    assert place.get("file") == b"0123456789"


def test_write_puts_all_buffers_one_behind_the_other(place: Place) -> None:
    file = place.disk.open(place.put("file", b"........."), write=True)
    file.write(2, [b"ab", b"", bytearray(b"c"), memoryview(b"xdex")[1:3]])
    assert place.get("file") == b"..abcde.."
    file.write(5, [])
    file.write(50, [b""])
    assert place.get("file") == b"..abcde.."


def test_write_takes_views_of_wider_items(place: Place) -> None:
    numbers = array("i", [1, 2, 3])
    file = place.disk.open(place.path("file"), write=True, create=True)
    file.write(0, [memoryview(numbers), memoryview(array("i"))])
    assert place.get("file") == numbers.tobytes()


@pytest.mark.parametrize("count", [IOV_MAX - 1, IOV_MAX, IOV_MAX + 1, 3 * IOV_MAX + 7])
def test_write_takes_any_number_of_buffers(place: Place, count: int) -> None:
    buffers = [b"%d," % number for number in range(count)]
    file = place.disk.open(place.path("file"), write=True, create=True)
    file.write(0, buffers)
    assert place.get("file") == b"".join(buffers)


def test_write_beyond_the_end_leaves_zeros(place: Place) -> None:
    file = place.disk.open(place.put("file", b"ab"), write=True)
    file.write(5, [b"cd"])
    assert place.get("file") == b"ab\0\0\0cd"


def test_truncate_cuts_and_extends_with_zeros(place: Place) -> None:
    file = place.disk.open(place.put("file", b"abcdef"), write=True)
    file.truncate(3)
    assert place.get("file") == b"abc"
    file.truncate(5)
    assert place.get("file") == b"abc\0\0"
    assert file.size() == 5


def test_open_keeps_what_is_there(place: Place) -> None:
    place.put("file", b"abc")
    place.disk.open(place.path("file"), write=True, create=True)
    assert place.get("file") == b"abc"


def test_a_file_opened_to_read_refuses_to_write(place: Place) -> None:
    file = place.disk.open(place.put("file", b"abc"))
    raises(errno.EBADF, lambda: file.write(0, [b"x"]))
    file.sync()
    assert place.get("file") == b"abc"


def test_a_closed_file_is_ebadf_and_closes_twice(place: Place) -> None:
    file = place.disk.open(place.put("file", b"abc"), write=True)
    file.close()
    file.close()
    raises(errno.EBADF, lambda: file.read(0, 1))
    raises(errno.EBADF, lambda: file.write(0, [b"x"]))
    raises(errno.EBADF, file.sync)
    raises(errno.EBADF, file.size)
    raises(errno.EBADF, lambda: file.truncate(0))


def test_rename_replaces_and_open_files_follow_their_file(place: Place) -> None:
    new = place.disk.open(place.put("new", b"new"), write=True)
    old = place.disk.open(place.put("old", b"old"))
    place.disk.rename(place.path("new"), place.path("old"))
    assert place.disk.names(place.root) == ["old"]
    assert place.get("old") == b"new"
    assert old.read(0, 10) == b"old"
    new.write(3, [b"er"])
    assert place.get("old") == b"newer"


def test_rename_to_itself_changes_nothing(place: Place) -> None:
    path = place.put("file", b"abc")
    place.disk.rename(path, path)
    assert place.get("file") == b"abc"


def test_rename_moves_directories(place: Place) -> None:
    place.disk.make_directory(place.path("a/b"))
    place.put("a/b/file", b"abc")
    place.disk.make_directory(place.path("empty"))
    place.disk.rename(place.path("a/b"), place.path("empty"))
    assert place.get("empty/file") == b"abc"
    assert place.disk.names(place.path("a")) == []
    place.disk.make_directory(place.path("full/below"))
    raises(errno.ENOTEMPTY, lambda: place.disk.rename(place.path("empty"), place.path("full")))
    raises(errno.EINVAL, lambda: place.disk.rename(place.path("full"), place.path("full/below/self")))


def test_a_removed_file_lives_on_in_open_handles(place: Place) -> None:
    file = place.disk.open(place.put("file", b"abc"), write=True)
    place.disk.remove(place.path("file"))
    assert not place.disk.exists(place.path("file"))
    file.write(3, [b"d"])
    file.sync()
    assert file.read(0, 10) == b"abcd"
    place.put("file", b"other")
    assert file.read(0, 10) == b"abcd"


def test_names_are_sorted(place: Place) -> None:
    for name in ("b", "a10", "a2", "Z", "é", "c"):
        place.put(name, b"")
    place.disk.make_directory(place.path("b2"))
    assert place.disk.names(place.root) == ["Z", "a10", "a2", "b", "b2", "c", "é"]


def test_make_directory_makes_parents_and_may_be_repeated(place: Place) -> None:
    place.disk.make_directory(place.path("a/b/c"))
    place.disk.make_directory(place.path("a/b/c"))
    place.disk.make_directory(place.path("a/b/d/"))
    assert place.disk.exists(place.path("a/b/c"))
    assert place.disk.names(place.path("a/b")) == ["c", "d"]
    place.disk.sync_directory(place.path("a/b"))


def test_a_lock_has_one_holder(place: Place) -> None:
    lock = place.disk.lock(place.path("lock"))
    with pytest.raises(BlockingIOError):
        place.disk.lock(place.path("lock"))
    with pytest.raises(BlockingIOError):
        place.disk.lock(place.path("lock"))
    other = place.disk.lock(place.path("other"))
    lock.release()
    again = place.disk.lock(place.path("lock"))
    lock.release()
    with pytest.raises(BlockingIOError):
        place.disk.lock(place.path("lock"))
    again.release()
    other.release()
    assert place.disk.names(place.root) == ["lock", "other"]


def test_a_lock_takes_the_file_that_is_there(place: Place) -> None:
    lock = place.disk.lock(place.put("lock", b"123\n"))
    assert place.get("lock") == b"123\n"
    lock.release()


def test_free_bytes_is_a_plausible_number(place: Place) -> None:
    assert place.disk.free_bytes(place.root) > 0


NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/b", "d/e", "x/y"])
BYTES = st.binary(max_size=40)
PLACES = st.integers(0, 60)
STEPS = st.one_of(
    st.tuples(st.just("write"), NAMES, PLACES, BYTES),
    st.tuples(st.just("truncate"), NAMES, PLACES),
    st.tuples(st.just("create"), NAMES),
    st.tuples(st.just("rename"), NAMES, NAMES),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("make_directory"), NAMES),
    st.tuples(st.just("sync"), NAMES),
    st.tuples(st.just("sync_directory"), NAMES),
    st.tuples(st.just("read"), NAMES, PLACES, PLACES),
    st.tuples(st.just("names"), NAMES),
)


def perform(place: Place, step: tuple[object, ...]) -> object:
    """The result of one step, or the name of the error it met."""
    try:
        return _perform(place, step)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def _perform(place: Place, step: tuple[object, ...]) -> object:
    disk, path = place.disk, place.path(str(step[1]))
    match step:
        case ("write", _, int(position), bytes(data)):
            disk.open(path, write=True).write(position, [data])
        case ("truncate", _, int(size)):
            disk.open(path, write=True).truncate(size)
        case ("create", _):
            disk.open(path, write=True, create=True)
        case ("rename", _, str(new)):
            disk.rename(path, place.path(new))
        case ("remove" | "make_directory" | "sync_directory" | "names" as call, _):
            return getattr(disk, call)(path)
        case ("sync", _):
            disk.open(path, write=True).sync()
        case ("read", _, int(position), int(length)):
            return disk.open(path, write=True).read(position, length)
        case _:
            raise AssertionError(step)
    return None


def everything(place: Place, below: str = "") -> Iterator[tuple[str, bytes | None]]:
    for name in place.disk.names(place.root + below):
        path = f"{below}/{name}"
        try:
            yield path, place.get(path[1:])
        except IsADirectoryError:
            yield path, None
            yield from everything(place, path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=30))
def test_both_disks_answer_any_sequence_alike(tmp_path: Path, steps: list[tuple[object, ...]]) -> None:
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    simulated = SimDisk()
    simulated.make_directory("/data")
    places = Place(RealDisk(), str(tmp_path)), Place(simulated, "/data")
    for step in steps:
        real, sim = (perform(place, step) for place in places)
        assert real == sim, step
    real_tree, sim_tree = (list(everything(place)) for place in places)
    assert real_tree == sim_tree
