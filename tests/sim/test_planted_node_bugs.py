"""Bugs put into the node on purpose, each as small as it can be: exploring the node's days catches every one of them.

Without a bug the same days are explored by test_explore_node and find nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flowmesh.base.durability import Durability
from flowmesh.catalog import commands
from flowmesh.format.batch import Batch
from flowmesh.groups.machine import GroupsMachine
from flowmesh.log import commit
from flowmesh.node import snapshots
from flowmesh.node.catalog import CatalogPartition
from flowmesh.node.groups import GroupsPartition
from flowmesh.node.node import Node
from flowmesh.node.partition import AppendReply, StreamPartition
from flowmesh.node.streams import OpenStream, StreamStore
from flowmesh.sim.disk import SimDisk
from flowmesh.sim.explore import Plan
from flowmesh.sim.node_checker import KnownNode
from flowmesh.sim.node_machine import Part
from flowmesh.sim.node_workloads import NODE_WORKLOADS, ORDERS, OTHERS, PLAIN
from flowmesh.sim.node_world import NodeWorld
from flowmesh.streams.machine import Placed, StreamMachine
from flowmesh.streams.producers import Producers
from tests.sim.planting import Bug, NoDirectorySync, Patch, explored, require_caught

CRASHES = Plan(second_crashes_max=0, faults=False, violations_max=6, stride=5)


# --- the bugs


def ack_before_fsync(patch: Patch) -> None:
    patch.setattr(Durability, "acks_after_sync", False)


def producers_forgotten_at_a_restart(patch: Patch) -> None:
    patch.setattr(StreamPartition, "_fold", lambda partition: None)


def snapshot_before_the_sync(patch: Patch) -> None:
    """It knows of batches that are not in the log yet."""
    honest = StreamPartition.close

    def close(partition: StreamPartition) -> None:
        partition.snapshot()
        patch.setattr(partition, "snapshot", lambda: None)
        honest(partition)

    patch.setattr(StreamPartition, "close", close)


def snapshot_of_another_history_trusted(patch: Patch) -> None:
    patch.setattr(snapshots, "_fits", lambda snapshot, view: True)


def catalog_before_the_directory(patch: Patch) -> None:
    def create_stream(node: Node, key: Any, settings: Any) -> Any:
        tenant, namespace, name = key
        stream = node.catalog.execute(commands.AddStream(tenant, namespace, name, settings))
        node._store.make("/".join(key), settings)
        node._open_stream(key, stream)
        return stream

    patch.setattr(Node, "create_stream", create_stream)


def directory_not_durable(patch: Patch) -> None:
    without_directory_syncs(patch, "_make_partitions")


def removal_not_durable(patch: Patch) -> None:
    without_directory_syncs(patch, "remove")


def without_directory_syncs(patch: Patch, name: str) -> None:
    honest = getattr(StreamStore, name)

    def method(store: StreamStore, *arguments: Any, **options: Any) -> None:
        disk = store._disk
        store._disk = NoDirectorySync(disk)
        try:
            honest(store, *arguments, **options)
        finally:
            store._disk = disk

    patch.setattr(StreamStore, name, method)


def without_sync_of(kind: type[Any]) -> Callable[[Patch], None]:
    """A change of the catalog that is answered before it is durable."""

    def plant(patch: Patch) -> None:
        honest = CatalogPartition.execute

        def execute(catalog: CatalogPartition, command: Any) -> Any:
            log: Any = catalog.appender
            keep = log.sync
            log.sync = (lambda: None) if isinstance(command, kind) else keep
            try:
                return honest(catalog, command)
            finally:
                log.sync = keep

        patch.setattr(CatalogPartition, "execute", execute)

    return plant


def first_token_kept_too_late(patch: Patch) -> None:
    honest = Node.open

    def open_node(disk: Any, clock: Any, entropy: Any, directory: str, keep: Any, reserve: int) -> Node:
        kept: list[str] = []
        node = honest(disk, clock, entropy, directory, kept.append, reserve)
        for text in kept:
            keep(text)
        return node

    patch.setattr(Node, "open", open_node)


def repetition_appended_again(patch: Patch) -> None:
    def place(machine: StreamMachine, batch: Batch, batches: list[Batch], pending: Any) -> Placed:
        batches.append(batch)
        return Placed(len(batches) - 1, 0, batch.header.count)

    patch.setattr(StreamMachine, "_place", place)


def old_epoch_accepted(patch: Patch) -> None:
    honest = Producers.judge

    def judge(producers: Producers, header: Any) -> Any:
        state = producers.find(header.producer_id)
        return None if state is not None and header.producer_epoch < state.epoch else honest(producers, header)

    patch.setattr(Producers, "judge", judge)


def trim_without_a_snapshot(patch: Patch) -> None:
    patch.setattr(StreamPartition, "_save_snapshot", lambda partition, *, sync: None)


def trim_with_a_snapshot_in_the_cache(patch: Patch) -> None:
    honest = StreamPartition._save_snapshot
    patch.setattr(StreamPartition, "_save_snapshot", lambda partition, *, sync: honest(partition, sync=False))


def replies_misplaced(patch: Patch) -> None:
    honest = StreamPartition._reply

    def reply(partition: StreamPartition, outcome: Any, results: Any) -> Any:
        return honest(partition, outcome._replace(first=0) if isinstance(outcome, Placed) else outcome, results)

    patch.setattr(StreamPartition, "_reply", reply)


def one_failed_log_takes_the_others_along(patch: Patch) -> None:
    honest = commit.sync

    def sync(logs: Any, sync_files: Any) -> None:
        honest(logs, sync_files)
        if any(log.failure is not None for log in logs):
            for log in logs:
                log.poison("another one failed")

    patch.setattr(commit, "sync", sync)


def failed_log_acknowledged(patch: Patch) -> None:
    honest = StreamPartition.write

    def write(partition: StreamPartition, group: Any) -> Any:
        results = honest(partition, group)
        return [result if isinstance(result, AppendReply) else AppendReply(0, 1, 0) for result in results]

    patch.setattr(StreamPartition, "write", write)


def holds_ignored(patch: Patch) -> None:
    patch.setattr(OpenStream, "hold", lambda stream, held: None)


def positions_not_durable(patch: Patch) -> None:
    """Applied and answered when they are written."""
    honest = GroupsPartition.write

    def write(groups: GroupsPartition, group: Any) -> Any:
        outcomes = honest(groups, group)
        unsynced, groups._unsynced = groups._unsynced, []
        for event in unsynced:
            groups.machine.apply(event)
        return outcomes

    patch.setattr(GroupsPartition, "write", write)
    patch.setattr(GroupsPartition, "dirty", False)


def groups_found_by_the_name_of_their_stream(patch: Patch) -> None:
    """A later stream of the same name finds those of the one before."""
    patch.setattr(GroupsPartition, "keep_only", lambda groups, streams: None)
    honest = GroupsMachine.of_stream

    def of_stream(machine: GroupsMachine, stream: int) -> Any:
        return [group for known in machine.groups for group in honest(machine, known)]

    patch.setattr(GroupsMachine, "of_stream", of_stream)


BUGS = (
    Bug("ack before fsync", ack_before_fsync, "node-streams", "acknowledged as durable, is lost", CRASHES),
    Bug("producers forgotten at a restart", producers_forgotten_at_a_restart, "node-producers", "repetition", CRASHES),
    Bug("snapshot before the sync", snapshot_before_the_sync, "node-policies", "not what its log says", CRASHES),
    Bug("foreign snapshot", snapshot_of_another_history_trusted, "foreign snapshot", "not what its log says"),
    Bug("catalog before the directory", catalog_before_the_directory, "node-streams", "cannot be opened", CRASHES),
    Bug("directory not durable", directory_not_durable, "node-streams", "cannot be opened", CRASHES),
    Bug("removal not durable", removal_not_durable, "node-streams", "left over", CRASHES),
    Bug("revocation not durable", without_sync_of(commands.DropToken), "node-access", "was revoked", CRASHES),
    Bug("settings not durable", without_sync_of(commands.ChangeStream), "node-streams", "its settings are", CRASHES),
    Bug("tenant not durable", without_sync_of(commands.AddTenant), "node-access", "tenant acme is lost", CRASHES),
    Bug("first token kept too late", first_token_kept_too_late, "node-access", "cannot come in", CRASHES),
    Bug("repetition appended again", repetition_appended_again, "node-producers", "its repetition", CRASHES),
    Bug("old epoch accepted", old_epoch_accepted, "node-producers", "an epoch that is over", CRASHES),
    Bug("trim without a snapshot", trim_without_a_snapshot, "node-trims", "its repetition", CRASHES),
    Bug("trim before its snapshot", trim_with_a_snapshot_in_the_cache, "node-trims", "its repetition", CRASHES),
    Bug("holds ignored", holds_ignored, "node-groups", "the log begins at offset", CRASHES),
    Bug("positions not durable", positions_not_durable, "node-groups", "group reader is at", CRASHES),
    Bug("groups by name", groups_found_by_the_name_of_their_stream, "node-groups", "group reader is at", CRASHES),
    Bug("replies misplaced", replies_misplaced, "node-streams", "were said to be at", CRASHES),
    Bug("one failed log takes others", one_failed_log_takes_the_others_along, "one failed log", "nothing was wrong"),
    Bug("refusal told as an append", failed_log_acknowledged, "node-full", "", CRASHES),
)


# --- the pieces that catch them


def foreign_snapshot() -> list[str]:
    """A snapshot of what a crash cut away since, left beside a log that went on in another way."""
    world = NodeWorld(SimDisk(1), 1, KnownNode())
    world.open()
    world.create(ORDERS, PLAIN)
    world.send(world.batch(Part(ORDERS)))
    partition = world.node.stream(ORDERS).partition(0)
    view, state = partition.view, StreamMachine()
    cut_away = view._replace(active=view.active._replace(last_block_hash=bytes(32)))
    snapshots.save(world.disk, partition.appender.directory, cut_away, state.state_version, state.snapshot())
    again = NodeWorld(world.disk.crash("keep_all"), 2, world.expected)
    again.open()
    again.check(machine_died=False)
    return again.problems


def one_failed_log() -> list[str]:
    """An fsync fails in the log of one stream; in the same round another one was written to."""
    world = NodeWorld(SimDisk(1), 1, KnownNode())
    world.open()
    for key in (ORDERS, OTHERS):
        world.create(key, PLAIN)
    failing = world.node.stream(OTHERS).partition(0).appender.directory
    world.disk.fail("sync", path=f"{failing}/segment-*.log")
    world.send(world.batch(Part(ORDERS)), world.batch(Part(OTHERS)))
    assert world.disk.faults_waiting == 0
    world.send(world.batch(Part(ORDERS)), world.batch(Part(OTHERS)))
    return world.problems


PIECES: dict[str, Callable[[], list[str]]] = {"foreign snapshot": foreign_snapshot, "one failed log": one_failed_log}


def findings(bug: Bug) -> list[str]:
    return PIECES[bug.piece]() if bug.piece in PIECES else explored(bug.piece, bug.plan)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.what.replace(" ", "-"))
def test_a_planted_bug_of_the_node_is_caught(bug: Bug, monkeypatch: Patch) -> None:
    bug.plant(monkeypatch)
    require_caught(bug, findings(bug))


@pytest.mark.parametrize("piece", PIECES)
def test_without_a_bug_a_piece_finds_nothing(piece: str) -> None:
    assert PIECES[piece]() == []


def test_every_day_that_catches_is_known() -> None:
    assert {bug.piece for bug in BUGS} <= PIECES.keys() | NODE_WORKLOADS.keys()
