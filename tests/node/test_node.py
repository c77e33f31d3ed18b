"""What a node does with its directory, stream by stream, on a simulated disk."""

import errno

import pytest

from flowmesh.base.errors import (
    AlreadyExists,
    AlreadyOpen,
    BadRequest,
    CorruptData,
    DiskFull,
    NotFound,
    StorageFailed,
    UnsupportedVersion,
)
from flowmesh.catalog.model import StreamKey, StreamSettings
from flowmesh.format import columns
from flowmesh.format.batch import Producer
from flowmesh.log.commit import sync, sync_one_by_one
from flowmesh.node import paths
from flowmesh.node.node import Node
from flowmesh.node.partition import AppendReply, StreamPartition
from flowmesh.sim.clock import SimClock
from flowmesh.sim.disk import SimDisk
from flowmesh.sim.entropy import SimEntropy
from flowmesh.streams.machine import AppendBatch, AppendRecord
from tests.node.worlds import DATA, World, commit_to, proves, values_of

ORDERS: StreamKey = ("default", "shop", "orders")
BILLS: StreamKey = ("default", "shop", "bills")
INTERVAL = StreamSettings(durability="interval:60000")
DIRECTORY = f"{DATA}/{paths.resource_directory(paths.STREAMS, '/'.join(ORDERS))}"


@pytest.fixture
def world() -> World:
    made = World(SimDisk(3))
    made.open()
    return made


def reopened(world: World) -> Node:
    world.node.close()
    return world.open()


def test_the_first_start_makes_one_good_operator_token_and_later_ones_none(world: World) -> None:
    (text,) = world.kept_tokens
    assert proves(world.node, text)
    reopened(world)
    assert world.kept_tokens == [text]


def test_a_node_that_has_lost_its_last_operator_gets_a_new_one(world: World) -> None:
    world.node.revoke_token(world.kept_tokens[0].partition(".")[0])
    reopened(world)
    assert proves(world.node, world.kept_tokens[1])


def test_a_second_node_is_refused(world: World) -> None:
    with pytest.raises(AlreadyOpen, match="another node runs"):
        Node.open(world.disk, SimClock(), SimEntropy(), DATA, lambda _text: None)


def test_a_start_that_fails_lets_go_of_the_lock(world: World) -> None:
    world.node.close()
    world.disk.fail("read", path="*/node.json")
    with pytest.raises(OSError, match="Input/output"):
        world.open()
    world.open()


@pytest.mark.parametrize(
    "name, data, refusal",
    [
        ("node.json", b'{"format":"flowmesh.node","version":2,"id":"a"}', UnsupportedVersion),
        ("node.json", b"{}", CorruptData),
        ("node.json", b'{"format":"flowmesh.node","version":1}', CorruptData),
    ],
)
def test_a_node_file_that_cannot_be_understood_stops_the_start(
    world: World, name: str, data: bytes, refusal: type[Exception]
) -> None:
    world.node.close()
    file = world.disk.open(f"{DATA}/{name}", write=True)
    file.truncate(0)
    file.write(0, [data])
    before = world.disk.files()
    with pytest.raises(refusal):
        world.open()
    assert world.disk.files() == before


def test_data_without_a_node_file_is_not_taken_for_a_new_node(world: World) -> None:
    world.node.close()
    world.disk.remove(f"{DATA}/node.json")
    with pytest.raises(CorruptData, match=r"node\.json is missing"):
        world.open()


def test_a_stream_of_the_same_name_is_another_chain_with_nothing_in_it(world: World) -> None:
    world.create(ORDERS, INTERVAL)
    world.append(ORDERS, b"old")
    before = world.chain(ORDERS)
    world.delete(ORDERS)
    world.create(ORDERS, StreamSettings())
    assert world.chain(ORDERS) != before
    assert values_of(reopened(world), ORDERS) == []


def test_a_deleted_stream_leaves_nothing_on_the_disk(world: World) -> None:
    before = {path for path in world.disk.files() if path.startswith(f"{DATA}/{paths.STREAMS}")}
    world.create(ORDERS, StreamSettings(partitions=3))
    world.append(ORDERS, b"x" * 1000)
    world.delete(ORDERS)
    assert {path for path in world.disk.files() if path.startswith(f"{DATA}/{paths.STREAMS}")} == before
    with pytest.raises(NotFound):
        world.node.stream(ORDERS)


def test_what_could_not_be_removed_is_removed_by_upkeep(world: World) -> None:
    world.create(ORDERS, StreamSettings())
    world.disk.fail("rename", path=DIRECTORY, error=errno.EBUSY)
    world.delete(ORDERS)
    assert world.disk.exists(DIRECTORY)
    world.node.trim()
    assert not world.disk.exists(DIRECTORY)


def test_repeated_batches_are_known_after_a_restart_with_and_without_a_snapshot(world: World) -> None:
    world.create(ORDERS, StreamSettings())
    batch = AppendBatch(columns.encode([b"a", b"b"], producer=Producer(9, 0, 0)))
    assert commit_to(world.node, ORDERS, batch)[0][:2] == (0, 2)
    after_kill = world.after(world.disk.crash("keep_all"))
    after_kill.open()
    for _ in range(2):
        assert commit_to(after_kill.node, ORDERS, batch) == [AppendReply(0, 2, 0, repeated=True)]
        reopened(after_kill)
    assert values_of(after_kill.node, ORDERS) == [b"a", b"b"]


def test_a_stream_that_cannot_be_opened_keeps_no_other_from_being_served(world: World) -> None:
    world.create(ORDERS, StreamSettings())
    world.create(BILLS, StreamSettings())
    world.append(BILLS, b"bill")
    world.node.close()
    world.disk.fail("open", path=f"{DIRECTORY}/0/*", times=1_000)
    node = world.open()
    assert values_of(node, BILLS) == [b"bill"]
    assert list(node.damaged) == [ORDERS]
    with pytest.raises(StorageFailed):
        node.stream(ORDERS)
    with pytest.raises(AlreadyExists):
        node.create_stream(ORDERS, StreamSettings())
    world.disk.heal()
    assert reopened(world).damaged == {}


def test_a_damaged_range_is_named_and_all_around_it_is_served(world: World) -> None:
    world.create(ORDERS, StreamSettings(segment_bytes=65_536))
    batches = [AppendBatch(columns.encode([b"x" * 20_000], producer=Producer(1, 0, number))) for number in range(12)]
    commit_to(world.node, ORDERS, *batches)
    after = world.after(world.disk.crash("keep_all"))
    after.disk.flip_bit(f"{DIRECTORY}/0/segment-000002.log", 30_000, 3)
    partition = after.open().stream(ORDERS).partition(0)
    with pytest.raises(CorruptData, match=r"segment 2, .* offsets \[4, 5\) cannot be served"):
        partition.view.read(4)
    assert [partition.view.read(offset).blocks[0].base_offset for offset in (3, 5, 11)] == [3, 5, 11]
    assert commit_to(after.node, ORDERS, batches[-1]) == [AppendReply(11, 12, 0, repeated=True)], "folded past it"
    assert commit_to(after.node, ORDERS, AppendRecord(b"more"))[0].base_offset == 12


def fill(node: Node, key: StreamKey) -> None:
    for _ in range(100):
        commit_to(node, key, AppendRecord(b"x" * 10_000))


def test_a_full_disk_refuses_new_streams_and_appends_and_heals_when_one_is_deleted() -> None:
    world = World(SimDisk(3, capacity_bytes=600_000))
    reserve = 200_000
    world.node = node = Node.open(world.disk, SimClock(), SimEntropy(1), DATA, world.kept_tokens.append, reserve)
    world.create(ORDERS, StreamSettings())
    world.create(BILLS, StreamSettings())
    with pytest.raises(DiskFull):
        fill(node, ORDERS)
    with pytest.raises(DiskFull):
        commit_to(node, BILLS, AppendRecord(b"x" * 10_000))
    world.disk.set_capacity(sum(map(len, world.disk.files().values())) + 100_000)
    with pytest.raises(DiskFull):
        node.create_stream(("default", "shop", "more"), StreamSettings())
    assert values_of(node, ORDERS), "reading goes on"
    assert proves(node, node.create_token("default", ("*",), ("admin",), None, "").text), "tokens can still be made"
    node.delete_stream(ORDERS)
    assert commit_to(node, BILLS, AppendRecord(b"x" * 10_000))


def test_a_node_starts_on_a_full_disk() -> None:
    world = World(SimDisk(3))
    world.open()
    world.create(ORDERS, StreamSettings())
    world.append(ORDERS, b"one")
    world.node.close()
    world.disk.set_capacity(sum(map(len, world.disk.files().values())) + 5_000)
    assert values_of(world.open(), ORDERS) == [b"one"]


def test_more_that_is_durable_is_told_for_interval_streams_alone_also_new_and_altered_ones(world: World) -> None:
    told: list[StreamPartition] = []
    world.create(ORDERS, StreamSettings())
    world.node.watch(told.append)
    world.create(BILLS, INTERVAL)
    orders, bills = (world.node.stream(key).partition(0) for key in (ORDERS, BILLS))
    for key in (ORDERS, BILLS):
        commit_to(world.node, key, AppendRecord(b"x"))
    assert told == []
    assert (orders.view.end_offset, bills.view.end_offset) == (1, 0)
    sync([bills], sync_one_by_one)
    assert told == [bills]
    world.alter(ORDERS, INTERVAL)
    commit_to(world.node, ORDERS, AppendRecord(b"x"))
    sync([orders], sync_one_by_one)
    assert told == [bills, orders]


def test_a_log_that_fails_keeps_no_other_from_being_closed(world: World) -> None:
    world.create(ORDERS, INTERVAL)
    world.create(BILLS, INTERVAL)
    for key in (ORDERS, BILLS):
        commit_to(world.node, key, AppendRecord(b"x"))
    world.disk.fail("sync", path=f"{DIRECTORY}/0/segment-*.log")
    with pytest.raises(StorageFailed):
        world.node.close()
    assert values_of(world.open(), BILLS) == [b"x"]
    assert world.node.damaged == {}, "the log that failed was let go of"


def test_retention_is_applied_stream_by_stream(world: World) -> None:
    world.create(ORDERS, StreamSettings(segment_bytes=65_536, retention_bytes=70_000))
    world.create(BILLS, StreamSettings(segment_bytes=65_536))
    for key in (ORDERS, BILLS):
        for _ in range(10):
            commit_to(world.node, key, AppendRecord(b"x" * 30_000))
    assert world.node.trim() > 0
    starts = [world.node.stream(key).partition(0).view.start_offset for key in (ORDERS, BILLS)]
    assert starts[0] > starts[1] == 0


@pytest.mark.parametrize(
    "settings, field",
    [
        (StreamSettings(partitions=0), "partitions"),
        (StreamSettings(partitions=257), "partitions"),
        (StreamSettings(retention_age_ms=-1), "retention_age_ms"),
        (StreamSettings(retention_bytes=2**62), "retention_bytes"),
        (StreamSettings(segment_bytes=1), "segment_bytes"),
        (StreamSettings(durability="sometimes"), "durability"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused_before_anything_is_made(
    world: World, settings: StreamSettings, field: str
) -> None:
    before = world.disk.operations
    with pytest.raises(BadRequest) as raised:
        world.node.create_stream(ORDERS, settings)
    assert raised.value.field == field
    assert world.disk.operations == before


TRIMMED = StreamSettings(segment_bytes=65_536, retention_bytes=0)


def sent(number: int, size: int = 10) -> AppendBatch:
    return AppendBatch(columns.encode([b"x" * size], producer=Producer(9, 0, number)))


def trimmed_to_the_end(world: World) -> AppendBatch:
    """A stream whose producer's records are all trimmed; returns what that producer sent last."""
    world.create(ORDERS, TRIMMED)
    commit_to(world.node, ORDERS, sent(0), sent(1))
    world.node.stream(ORDERS).partition(0).appender.roll()
    assert world.node.trim() == 1
    return sent(1)


@pytest.mark.parametrize("more", [0, 3])
def test_what_producers_sent_is_known_after_it_was_trimmed_and_the_power_failed(world: World, more: int) -> None:
    last = trimmed_to_the_end(world)
    for _ in range(more):
        commit_to(world.node, ORDERS, AppendRecord(b"of nobody"))
    after = world.after(world.disk.crash("lose_all"))
    partition = after.open().stream(ORDERS).partition(0)
    assert (partition.view.start_offset, partition.view.end_offset) == (2, 2 + more)
    for _ in range(2):
        assert commit_to(after.node, ORDERS, last) == [AppendReply(1, 2, 0, repeated=True)]
        after.node.close()
        after = after.after(after.disk.crash("lose_all"))
        after.open()


def test_nothing_is_trimmed_before_what_it_says_of_producers_is_kept(world: World) -> None:
    world.disk.fail("create", path="*/snapshot-*", error=errno.ENOSPC)
    world.create(ORDERS, TRIMMED)
    commit_to(world.node, ORDERS, sent(0))
    partition = world.node.stream(ORDERS).partition(0)
    partition.appender.roll()
    assert (world.node.trim(), partition.view.start_offset) == (0, 0)
    assert world.disk.faults_waiting == 0
    assert (world.node.trim(), partition.view.start_offset) == (1, 1)


def test_a_stream_whose_folding_failed_holds_no_lock(world: World) -> None:
    world.create(ORDERS, StreamSettings())
    world.append(ORDERS, b"one")
    world.node.close()
    world.disk.fail("names", path=f"{DIRECTORY}/0", nth=2)
    assert list(world.open().damaged) == [ORDERS]
    assert world.disk.faults_waiting == 0
    assert values_of(reopened(world), ORDERS) == [b"one"]


def test_a_stream_that_a_full_disk_kept_from_being_described_is_removed_all_the_same(world: World) -> None:
    world.disk.fail("create", path=f"{DIRECTORY}/resource.json*", error=errno.ENOSPC)
    world.create(ORDERS, StreamSettings())
    assert world.disk.faults_waiting == 0
    world.delete(ORDERS)
    assert not world.disk.exists(DIRECTORY)


def test_a_stream_that_is_in_the_way_of_a_deleted_one_stays(world: World) -> None:
    world.create(ORDERS, StreamSettings())
    world.disk.fail("rename", path=DIRECTORY, error=errno.EBUSY)
    world.delete(ORDERS)
    world.create(ORDERS, StreamSettings())
    world.append(ORDERS, b"new")
    world.node.trim()
    assert world.node.catalog.machine.state.deleted == {}
    assert values_of(reopened(world), ORDERS) == [b"new"]


def test_a_deleted_directory_that_a_power_cut_brings_back_is_removed_by_the_next_start(world: World) -> None:
    world.create(ORDERS, StreamSettings())
    world.disk.fail("sync_directory", path=f"{DATA}/{paths.STREAMS}", nth=2)
    world.delete(ORDERS)
    world.node.trim()
    assert world.node.catalog.machine.state.deleted == {}
    after = world.after(world.disk.crash("lose_all"))
    assert len(after.disk.names(f"{DATA}/{paths.STREAMS}")) == 1, "what a failed fsync gave up, no later one keeps"
    after.open()
    assert after.disk.names(f"{DATA}/{paths.STREAMS}") == []


def test_a_stream_that_the_catalog_refuses_for_want_of_space_leaves_nothing(world: World) -> None:
    world.disk.fail("write", path=f"{DATA}/{paths.CATALOG}/segment-*", error=errno.ENOSPC)
    with pytest.raises(DiskFull):
        world.node.create_stream(ORDERS, StreamSettings())
    assert world.disk.names(f"{DATA}/{paths.STREAMS}") == []
    world.create(ORDERS, StreamSettings())
