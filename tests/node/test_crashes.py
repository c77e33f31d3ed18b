"""The power fails at every disk operation of an administrator's day; what was acknowledged is there after a restart."""

import pytest

from flowmesh.catalog.model import StreamKey, StreamSettings
from flowmesh.node import paths
from flowmesh.sim.disk import CrashMode, PowerLost, SimDisk
from tests.node.worlds import DATA, World, proves, values_of

ORDERS: StreamKey = ("default", "shop", "orders")
BILLS: StreamKey = ("acme", "shop", "bills")
TWO = StreamSettings(partitions=2)
KEPT = StreamSettings(partitions=2, retention_bytes=10_000, durability="always")
MODES: tuple[CrashMode, ...] = ("lose_all", "keep_all", "keep_names_lose_data", "random")
SHARES = 4
"""The crash points are shared out to so many tests, which run side by side."""


def day(world: World) -> None:
    """A bit of everything: tenants, streams, tokens, records; a name that is used again; a restart in between."""
    world.open()
    world.create_tenant("acme")
    world.create(ORDERS, TWO)
    world.append(ORDERS, b"one", b"two")
    token = world.add_token("acme")
    world.create(BILLS, StreamSettings())
    world.append(BILLS, b"bill")
    world.alter(ORDERS, KEPT)
    world.append(ORDERS, b"three")
    successor = world.rotate(token)
    world.node.close()
    world.open()
    world.append(ORDERS, b"four")
    world.delete(ORDERS)
    world.create(ORDERS, StreamSettings())
    world.append(ORDERS, b"new")
    world.revoke(successor)
    world.delete(BILLS)
    world.node.close()


def undisturbed() -> World:
    world = World(SimDisk(1))
    day(world)
    return world


def check(world: World) -> None:
    """The node that a restart made, against what had been acknowledged."""
    node, state = world.node, world.node.catalog.machine.state
    assert node.damaged == {}
    assert node.streams.keys() == state.streams.keys()
    assert not state.deleted, "what was deleted is gone for good after a start"
    for key, chain in world.streams.items():
        if key in world.unsure and key not in state.streams:
            continue
        assert world.chain(key) == chain, "this is another stream"
        assert values_of(node, key)[: len(world.records[key])] == world.records[key]
        if (key, "settings") not in world.unsure:
            assert state.streams[key].settings == world.settings[key]
    assert state.streams.keys() - world.streams.keys() <= world.unsure
    assert world.tenants <= state.tenants.keys()
    for token_id, text in world.tokens.items():
        assert proves(node, text) or token_id in world.unsure
    assert not world.revoked & state.tokens.keys()
    assert any(proves(node, text) for text in world.kept_tokens), "nobody can come in"
    check_space(world)


def check_space(world: World) -> None:
    """No directory is left over but that of a creation which was never finished."""
    known = {paths.resource_directory(paths.STREAMS, "/".join(key)) for key in world.node.streams}
    unsure = {paths.resource_directory(paths.STREAMS, "/".join(key)) for key in world.unsure if len(key) == 3}
    found = {f"{paths.STREAMS}/{name}" for name in world.disk.names(f"{DATA}/{paths.STREAMS}")}
    assert known <= found
    assert found - known <= unsure


def restarted(world: World, mode: CrashMode) -> None:
    after = world.after(world.disk.crash(mode))
    after.open()
    check(after)
    # It is of use again: what was on its way can be done now.
    for key in (ORDERS, BILLS):
        if key not in after.node.streams and key[0] in after.node.catalog.machine.state.tenants:
            after.create(key, TWO)
            after.append(key, b"again")
            assert values_of(after.node, key) == [b"again"]
    after.node.close()


@pytest.mark.parametrize("share", range(SHARES))
def test_a_power_cut_at_every_operation_loses_nothing_acknowledged(share: int) -> None:
    operations = undisturbed().disk.operations
    assert operations > 150
    for operation in range(1 + share, operations + 1, SHARES):
        world = World(SimDisk(operation))
        world.disk.crash_at(operation)
        with pytest.raises(PowerLost):
            day(world)
        for mode in MODES:
            restarted(world, mode)


def test_a_power_cut_during_the_restart_changes_nothing() -> None:
    operations = undisturbed().disk.operations
    for operation in range(5, operations, 9):
        world = World(SimDisk(operation))
        world.disk.crash_at(operation)
        with pytest.raises(PowerLost):
            day(world)
        recovery = world.after(world.disk.crash("random"))
        first = recovery.disk.operations
        recovery.open()
        count = recovery.disk.operations - first
        for nth in range(1, count + 1, 4):
            again = world.after(world.disk.crash("lose_all"))
            again.disk.crash_at(again.disk.operations + nth)
            try:
                again.open()
            except PowerLost:
                restarted(again, "random")


def test_the_day_ends_as_it_should() -> None:
    world = undisturbed()
    world.open()
    check(world)
    assert values_of(world.node, ORDERS) == [b"new"]
    assert BILLS not in world.node.streams
