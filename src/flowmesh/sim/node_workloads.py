"""What is done to a node while the power may fail: administrators, producers that repeat themselves, readers, upkeep.

A workload is fixed by its seed. It says what to do and never what must come of it: that is the checker's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from flowmesh.base.limits import SEGMENT_BYTES_MIN
from flowmesh.catalog.model import StreamKey, StreamSettings
from flowmesh.sim.disk import SimDisk
from flowmesh.sim.node_checker import HOLDER, KnownNode
from flowmesh.sim.node_machine import DATA, Part
from flowmesh.sim.node_world import NodeWorld
from flowmesh.sim.scenario import Known, Scenario, SimulatedWorld

ORDERS: StreamKey = ("default", "shop", "orders")
BILLS: StreamKey = ("acme", "shop", "bills")
OTHERS: StreamKey = ("default", "shop", "others")
PLAIN = StreamSettings()
TWO = StreamSettings(partitions=2)
ALWAYS = StreamSettings(durability="always")
INTERVAL = StreamSettings(durability="interval:100")
SHORT = StreamSettings(segment_bytes=SEGMENT_BYTES_MIN, retention_bytes=2 * SEGMENT_BYTES_MIN)
LARGE = SEGMENT_BYTES_MIN // 2 - 2_000
"""A value of which two fill a segment."""


class NodeWorkload(NamedTuple):
    play: Callable[[NodeWorld], None]
    about: str

    @property
    def scenario(self) -> Scenario:
        def world(disk: SimDisk, seed: int, known: Known | None) -> SimulatedWorld:
            expected = known if known is not None else KnownNode()
            assert isinstance(expected, KnownNode)
            return NodeWorld(disk, seed, expected)

        def play(world: SimulatedWorld) -> None:
            assert isinstance(world, NodeWorld)
            self.play(world)

        return Scenario(self.about, world, play, _is_log)


def _is_log(path: str) -> bool:
    """Logs lie in directories named by their partition: `streams/…/0`, `metadata/catalog/0`."""
    return path.startswith(f"{DATA}/") and path.rpartition("/")[2].isdigit()


def _streams(world: NodeWorld) -> None:
    world.open()
    world.create(ORDERS, TWO)
    world.send(world.batch(Part(ORDERS, 0)), world.records(Part(ORDERS, 1)))
    world.alter(ORDERS, StreamSettings(partitions=2, retention_bytes=10**6, durability="always"))
    world.send(world.batch(Part(ORDERS, 1)), world.batch(Part(ORDERS, 0)))
    world.delete(ORDERS)
    world.create(ORDERS, PLAIN)
    world.send(world.batch(Part(ORDERS)))
    world.restart()
    world.delete(ORDERS)
    world.create(OTHERS, PLAIN)


def _access(world: NodeWorld) -> None:
    world.open()
    world.create_tenant("acme")
    first = world.add_token("acme")
    world.create(BILLS, PLAIN)
    second = world.rotate(first)
    world.revoke(first)
    world.restart()
    world.delete(BILLS)
    world.revoke(second)
    world.delete_tenant("acme")
    world.add_token("default")


def _producers(world: NodeWorld) -> None:
    """Producers that repeat batches in one round, across rounds, and across restarts."""
    part = Part(ORDERS)
    world.open()
    world.create(ORDERS, PLAIN)
    for count in (1, 2, 3):
        world.send(world.batch(part, count), world.records(part), world.batch(part, producer=2))
        world.send(world.again(part), world.again(part, producer=2))
    world.send(world.again(part, back=3), world.batch(part))
    world.restart()
    world.send(world.again(part, back=2), world.again(part, producer=2, back=3))
    world.send(world.fence(part), world.batch(part, producer=2))
    world.send(world.fenced(part), world.batch(part, 3))


def _durabilities(world: NodeWorld) -> None:
    """The three policies side by side in each round."""
    world.open()
    parts = []
    for number, settings in enumerate((PLAIN, ALWAYS, INTERVAL)):
        key = ("default", "policies", f"p{number}")
        world.create(key, settings)
        parts.append(Part(key))
    for turn in range(3):
        world.send(*(world.batch(part) for part in parts), *(world.records(part) for part in parts))
        if turn == 1:
            world.tick()
    world.restart()
    world.send(*(world.batch(part) for part in parts))
    world.alter(parts[2].key, PLAIN)
    world.send(world.batch(parts[2]), world.batch(parts[0]))


def _trims(world: NodeWorld) -> None:
    part = Part(ORDERS)
    world.open()
    world.create(ORDERS, SHORT)
    world.send(world.batch(part, producer=2))
    for _ in range(8):
        world.send(world.batch(part, 1, LARGE))
    world.trim()
    world.send(world.again(part), world.again(part, producer=2))
    world.restart()
    world.send(world.again(part), world.again(part, producer=2))
    for _ in range(3):
        world.send(world.batch(part, 1, LARGE))
    world.trim()


def _groups(world: NodeWorld) -> None:
    """Positions of readers, and a hold that keeps retention away until its group has read on."""
    part = Part(ORDERS)
    world.open()
    world.create(ORDERS, SHORT)
    world.commit(ORDERS, "reader", {0: 0})
    world.commit(ORDERS, HOLDER, {0: 2})
    for _ in range(8):
        world.send(world.batch(part, 1, LARGE))
    world.trim()
    world.commit(ORDERS, "reader", {0: 7})
    world.restart()
    world.trim()
    world.commit(ORDERS, HOLDER, {0: 6})
    world.trim()
    world.drop_group(ORDERS, "reader")
    world.create(OTHERS, TWO)
    world.commit(OTHERS, "reader", {0: 1, 1: 2})
    world.delete(OTHERS)
    world.create(OTHERS, TWO)
    world.commit(OTHERS, "other", {1: 1})


def _disk_full(world: NodeWorld) -> None:
    """Space runs out under all kinds of changes, one stream gives its own back, and everything goes on."""
    world.open()
    world.create(ORDERS, PLAIN)
    world.create(OTHERS, PLAIN)
    world.send(world.batch(Part(ORDERS)), world.batch(Part(OTHERS), 3, 2_000))
    for free_bytes in (4_000, 700, 100):
        world.limit(free_bytes)
        world.send(world.batch(Part(ORDERS), 2, 300), world.records(Part(OTHERS), 1, 500))
        world.create(("default", "shop", "more"), PLAIN)
        world.send(world.batch(Part(ORDERS)), world.batch(Part(OTHERS)))
    world.delete(OTHERS)
    world.send(world.batch(Part(ORDERS)))
    world.limit(None)
    world.send(world.batch(Part(ORDERS)))
    world.restart()
    world.send(world.batch(Part(ORDERS)))


def _mixed(world: NodeWorld) -> None:
    """Whatever the seed says, in any order: what a written script does not think of."""
    world.open()
    world.create_tenant("acme")
    for _ in range(14):
        world.chance.choice(_MIXED)(world)


def _any_part(world: NodeWorld) -> Part | None:
    keys = sorted(world.expected.streams)
    if not keys:
        return None
    key = world.chance.choice(keys)
    return Part(key, world.chance.randrange(len(world.expected.streams[key].partitions)))


def _send_some(world: NodeWorld) -> None:
    parts = {part for part in (_any_part(world) for _ in range(3)) if part is not None}
    groups = []
    for part in sorted(parts):
        producer, size = world.chance.choice((1, 2)), world.chance.choice((0, 40, 700, LARGE))
        groups.append(world.batch(part, world.chance.randrange(1, 4), size, producer=producer))
        if world.chance.random() < 0.5:
            groups.append(world.records(part, world.chance.randrange(1, 4)))
    world.send(*groups)


def _repeat_some(world: NodeWorld) -> None:
    part = _any_part(world)
    if part is not None:
        producer = world.chance.choice((1, 2))
        world.send(world.again(part, producer, world.chance.randrange(1, 4)), world.batch(part, producer=3))


def _fence_one(world: NodeWorld) -> None:
    part = _any_part(world)
    if part is not None:
        world.send(world.fence(part))
        world.send(world.fenced(part))


def _create_one(world: NodeWorld) -> None:
    key = world.chance.choice((ORDERS, BILLS, OTHERS))
    world.create(key, world.chance.choice((PLAIN, TWO, ALWAYS, INTERVAL, SHORT)))


def _commit_one(world: NodeWorld) -> None:
    part = _any_part(world)
    if part is not None:
        group = world.chance.choice(("reader", HOLDER))
        world.commit(part.key, group, {part.partition: world.chance.randrange(5)})


def _delete_one(world: NodeWorld) -> None:
    part = _any_part(world)
    if part is not None:
        world.delete(part.key)


def _change_tokens(world: NodeWorld) -> None:
    if world.expected.tokens and world.chance.random() < 0.7:
        token_id = world.chance.choice(sorted(world.expected.tokens))
        world.chance.choice((world.rotate, world.revoke))(token_id)
    else:
        world.add_token("default")


_MIXED: tuple[Callable[[NodeWorld], None], ...] = (
    *(_send_some,) * 6, *(_create_one,) * 4, *(_repeat_some,) * 3, *(_commit_one,) * 2, _fence_one, _delete_one,
    _change_tokens, NodeWorld.trim, NodeWorld.tick, NodeWorld.restart,
)  # fmt: skip


def _ahead(world: NodeWorld) -> None:
    world.open()
    world.create(ORDERS, TWO)
    first, second = Part(ORDERS, 0), Part(ORDERS, 1)
    for _ in range(3):
        world.send(world.batch(first), world.records(second), world.batch(first, producer=2), apart=True)
        world.send(world.again(first), world.batch(first, 1), world.batch(second), world.records(first), apart=True)
    world.restart()
    world.send(world.again(first), world.batch(first), world.batch(second, producer=3), apart=True)


NODE_WORKLOADS: Mapping[str, NodeWorkload] = {
    "node-streams": NodeWorkload(_streams, "a node: streams made, altered, deleted, and made again by the same name"),
    "node-access": NodeWorkload(_access, "a node: tenants and tokens made, rotated, revoked and deleted"),
    "node-producers": NodeWorkload(_producers, "a node: idempotent producers that repeat themselves and take over"),
    "node-ahead": NodeWorkload(_ahead, "a node: rounds that are prepared beside the sync of the one before"),
    "node-policies": NodeWorkload(_durabilities, "a node: streams of each durability in the same rounds"),
    "node-trims": NodeWorkload(_trims, "a node: retention, and producers whose batches were trimmed"),
    "node-groups": NodeWorkload(_groups, "a node: groups of readers, and a hold that keeps retention away"),
    "node-full": NodeWorkload(_disk_full, "a node: a disk that runs full under every kind of change, and heals"),
    "node-mixed": NodeWorkload(_mixed, "a node: all of it in an order that the seed chooses"),
}
