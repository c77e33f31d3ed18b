"""One simulated machine with a node on it: started, stopped, watched, and what it may be forgiven.

Knows no workload and injects no fault; a power cut passes through it. A log that fails takes its own stream out of use,
and the others have to go on: only what a fault struck may fail, and what failed before.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from flowmesh.base.errors import DiskFull, FlowMeshError
from flowmesh.catalog.model import StreamKey
from flowmesh.log.commit import Committed, sync_one_by_one
from flowmesh.node import paths
from flowmesh.node.node import Node
from flowmesh.node.partition import StreamPartition
from flowmesh.sim.clock import START_WALL_NS, SimClock
from flowmesh.sim.disk import SimDisk
from flowmesh.sim.entropy import SimEntropy
from flowmesh.sim.node_checker import KnownNode, KnownPartition
from flowmesh.sim.scenario import Stopped
from flowmesh.sim.seeds import derived
from flowmesh.sim.writer import SimWriter

DATA = "/data"
TICK_NS = 1_000


class Outcome(Enum):
    DONE = "done"
    REFUSED = "refused: nothing has changed"
    UNKNOWN = "of unknown outcome"


class Part(NamedTuple):
    """One partition of a stream."""

    key: StreamKey
    partition: int = 0

    def describe(self) -> str:
        return f"{'/'.join(self.key)} partition {self.partition}"


class NodeMachine:
    def __init__(self, disk: SimDisk, data_seed: int, expected: KnownNode) -> None:
        self.disk = disk
        self.expected = expected
        self.chance = random.Random(data_seed)
        self.problems: list[str] = []
        self.stopped = False
        self.watch_from = 0
        """Unused: a node has no readers beside itself."""
        self.may_be_full = disk.capacity_bytes is not None
        self._seed = data_seed
        self._struck_at_start = self._struck_before = len(disk.faults_struck)
        self._node: Node | None = None
        self._writer = SimWriter(self._sync_files)

    @property
    def node(self) -> Node:
        assert self._node is not None, "the workload has not started the node"
        return self._node

    def open(self) -> None:
        self.expected.lives += 1
        # A machine that comes back may have a clock that is behind.
        clock = SimClock(START_WALL_NS + self.chance.choice((-1, 1)) * 3_600_000_000_000, tick_ns=TICK_NS)
        entropy = SimEntropy(derived(self._seed, "entropy", self.expected.lives))
        self._struck_at_start = len(self.disk.faults_struck)
        try:
            self._node = Node.open(self.disk, clock, entropy, DATA, self.expected.first_tokens.append, 0)
        except (OSError, FlowMeshError) as error:
            raise Stopped from error
        self._writer = SimWriter(self._sync_files)
        self.look()

    def restart(self) -> None:
        """An orderly stop, and a start on the same machine."""
        sound = [part for part, partition in self.open_partitions() if partition.failure is None]
        if self.attempt("stop", self.node.close) is Outcome.DONE:
            for part in sound:
                self.known(part).log.synced()
        self.open()
        try:
            self.check(machine_died=False)
        except OSError as error:
            raise Stopped from error  # an ordered read fault, met by the checker

    def limit(self, free_bytes: int | None) -> None:
        """From now on the disk has so much free, or no end."""
        used = sum(map(len, self.disk.files().values()))
        self.disk.set_capacity(None if free_bytes is None else used + free_bytes)
        self.may_be_full = free_bytes is not None

    def known(self, part: Part) -> KnownPartition:
        return self.expected.streams[part.key].partitions[part.partition]

    def open_partitions(self) -> Iterator[tuple[Part, StreamPartition]]:
        for key, opened in self.node.streams.items() if self._node is not None else ():
            if key in self.expected.streams:
                for number, partition in enumerate(opened.partitions):
                    yield Part(key, number), partition

    # ---- what is watched

    def look(self) -> None:
        """Readers come by at any time; what they are shown is noted, because it must never be lost."""
        for part, partition in self.open_partitions():
            self.known(part).log.shown(partition.view.end_offset)

    def check(self, *, machine_died: bool) -> None:
        self.problems += self.expected.check(
            self.node, self.disk, machine_died=machine_died, faulty=self._struck_since(self._struck_at_start)
        )

    def _sync_files(self, logs: Sequence[Committed]) -> None:
        self.look()  # between the write and its fsync: what is shown now is shown too early
        sync_one_by_one(logs)

    # ---- what may fail

    def is_usable(self, key: StreamKey, partition: int = 0) -> bool:
        """Whether there is somebody to ask. A stream may only be missing when something failed before."""
        known = self.expected.streams.get(key)
        if known is None or not known.sure:
            return False
        opened = self.node.streams.get(key)
        if opened is not None and opened.partitions[partition].failure is None:
            return True
        if not self._struck_since(self._struck_at_start, key):
            self.problems.append(f"{'/'.join(key)} is out of use, and nothing failed")
        return False

    def attempt(self, what: str, change: Callable[[], Any], log: Committed | None = None) -> Outcome:
        """A change that somebody asks for, and what came of it. It is of the catalog if not of another log."""
        self.begin()
        had_failed = (self.node.catalog.appender if log is None else log).failure is not None
        try:
            change()
        except DiskFull as error:
            self.note_failure(what, error, had_failed=had_failed)
            return Outcome.REFUSED
        except FlowMeshError as error:
            self.note_failure(what, error, had_failed=had_failed)
            return Outcome.UNKNOWN
        except OSError as error:
            self.problems.append(f"{what}: the node let an OSError through: {error}")
            raise Stopped from error
        return Outcome.DONE

    def begin(self) -> None:
        """Something is asked of the node: what strikes from here on may be the reason if it fails."""
        self._struck_before = len(self.disk.faults_struck)

    def note_failure(
        self, what: str, error: FlowMeshError, key: StreamKey | None = None, *, had_failed: bool = False
    ) -> None:
        """`key`: only what struck this stream excuses it. `had_failed`: the log that it needs was out of use before."""
        if not self.is_excused(error, key, had_failed=had_failed):
            self.problems.append(f"{what} failed, and nothing was wrong: {error}")

    def is_excused(self, answer: object, key: StreamKey | None = None, *, had_failed: bool = False) -> bool:
        if not isinstance(answer, FlowMeshError):
            return False
        if self.may_be_full and isinstance(answer, DiskFull):
            return True
        return self._struck_since(self._struck_at_start if had_failed else self._struck_before, key)

    def _struck_since(self, count: int, key: StreamKey | None = None) -> bool:
        """Whether a call failed because it was ordered to; with a `key`: one in the directory of that stream."""
        below = "" if key is None else f"{DATA}/{paths.resource_directory(paths.STREAMS, '/'.join(key))}"
        return any(path.startswith(below) for path in self.disk.faults_struck[count:])
