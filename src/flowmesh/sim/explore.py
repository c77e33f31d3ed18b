"""Every way a workload can be interrupted, tried in turn: the power fails at each operation, and again while what ran
recovers; each call of the disk fails in each way. What goes wrong comes back as values, in an order the seed fixes.

What holds for a recovered log or node is its checker's to say.
"""

from __future__ import annotations

import errno
import hashlib
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from flowmesh.base.errors import FlowMeshError
from flowmesh.sim.disk import CrashMode, PowerLost, SimDisk, TraceEntry
from flowmesh.sim.faults import MUTATIONS, OPERATIONS
from flowmesh.sim.scenario import Known, Scenario, SimulatedWorld, Stopped
from flowmesh.sim.scenarios import SCENARIOS
from flowmesh.sim.seeds import derived

_BROKEN = (FlowMeshError, OSError, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What code that went wrong may raise at us; a `PowerLost` is none of it."""

_WATCHED = 3
"""How many operations before a crash other readers come by; what they see before, a run that crashes earlier checks."""
_UNWATCHED = 1 << 60

_QUIET_CALLS_MAX = 1000
"""How many calls of an operation that changes nothing are made to fail, at most; workloads make far fewer."""


class Violation(NamedTuple):
    workload: str
    seed: int
    operation: int
    """The number of the disk operation at which it began; 0 when nothing was interrupted."""
    mode: str
    what: str

    def describe(self) -> str:
        return f"{self.workload}, seed {self.seed}, operation {self.operation}, {self.mode}: {self.what}"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is tried."""

    random_outcomes: int = 1
    """Power cuts of mode `random` at each operation, beside one of each other mode."""
    second_crashes_max: int = 1
    """Crash points inside each recovery; when it has more operations, the seed picks among them."""
    second_outcomes: int = 1
    """Outcomes of each of these, of modes that the seed picks."""
    faults: bool = True
    violations_max: int = 20
    """Enough to see what is wrong; then the exploration ends."""
    stride: int = 1
    """The power fails at every so many-th operation of the workload, and every so many-th call fails; the seed decides
    where to begin, so that as many seeds try them all."""


@dataclass(slots=True)
class Exploration:
    workload: str
    seed: int
    operations: int = 0
    crash_points: int = 0
    """Operations at which the power failed, in the workload and in recoveries. Each has several outcomes."""
    fault_points: int = 0
    recoveries: int = 0
    """Disks that a start had to make sense of, each checked, written to, crashed and checked again."""
    violations: list[Violation] = field(default_factory=list)
    trace: list[TraceEntry] = field(default_factory=list)
    """The operations of the undisturbed run."""
    digest: str = ""
    """Over the traces of all runs and recoveries: two explorations with one digest did the same."""


class _Enough(Exception):
    """So many violations that further ones would say nothing new."""


class _Outcome(NamedTuple):
    """A disk after a crash, and what must be on it."""

    disk: SimDisk
    expected: Known
    machine_died: bool
    operation: int
    mode: str


def explore(name: str, seed: int, plan: Plan | None = None) -> Exploration:
    """Crashes and faults at every operation of one workload. The same name, seed and plan give the same result."""
    return _Explorer(name, seed, plan or Plan()).run()


def crash_modes(plan: Plan) -> list[CrashMode]:
    often: list[CrashMode] = ["random"] * plan.random_outcomes
    return ["lose_all", "keep_all", "keep_names_lose_data", *often]


class _Explorer:
    def __init__(self, name: str, seed: int, plan: Plan) -> None:
        self.name = name
        self.seed = seed
        self.plan = plan
        self.scenario: Scenario = SCENARIOS[name]
        self.result = Exploration(name, seed)
        self._digest = hashlib.sha256()
        self._first = 1 + seed % self.plan.stride

    def run(self) -> Exploration:
        try:
            self._undisturbed()
            for operation in range(self._first, self.result.operations + 1, self.plan.stride):
                self._crash_at(operation)
            if self.plan.faults:
                for call, number, partial in _fault_kinds():
                    self._fail_each(call, number, partial)
        except _Enough:
            pass
        self.result.digest = self._digest.hexdigest()
        return self.result

    # ---- the workload, whole or interrupted

    def _play(self, disk_seed: int, prepare: Callable[[SimDisk], None], watch_from: int = 0) -> SimulatedWorld:
        """The workload on a new disk, until it ends, the power fails, or what it works on gives up."""
        disk = SimDisk(disk_seed, capacity_bytes=self.scenario.capacity_bytes)
        prepare(disk)
        world = self.scenario.world(disk, derived(self.seed, self.name, "data"), None)
        world.watch_from = watch_from
        try:
            self.scenario.play(world)
        except PowerLost:
            pass
        except Stopped:
            world.stopped = True
        except _BROKEN as error:
            world.problems.append(f"the workload met {error!r}")
        self._note(disk)
        return world

    def _undisturbed(self) -> None:
        world = self._play(derived(self.seed, self.name), _leave_alone)
        self.result.operations = world.disk.operations
        self.result.trace = list(world.disk.trace)
        self._report(0, "undisturbed", world.problems)
        if world.disk.faults_waiting:
            self._report(0, "undisturbed", ["a fault that the workload ordered never struck"])
        self._all_outcomes(world, 0, "after the end")

    def _crash_at(self, operation: int) -> None:
        self.result.crash_points += 1
        disk_seed = derived(self.seed, self.name, "crash", operation)
        world = self._play(disk_seed, lambda disk: disk.crash_at(operation), operation - _WATCHED)
        self._report(operation, "before the crash", world.problems)
        self._all_outcomes(world, operation, "crash")

    def _all_outcomes(self, world: SimulatedWorld, operation: int, what: str) -> None:
        seen: list[bytes] = []
        for number, mode in enumerate(crash_modes(self.plan)):
            disk = world.disk.crash(mode)
            state = _state(disk)
            if mode != "keep_all" and state in seen:
                continue
            if mode != "keep_all":
                seen.append(state)
            label = f"{what}, {mode}" if mode != "random" else f"{what}, {mode} {number}"
            outcome = _Outcome(disk, world.expected, mode != "keep_all", operation, label)
            self._crash_in_recovery(outcome, number)
            self._recover(outcome._replace(disk=_twin(disk), expected=world.expected.copy()))

    def _fail_each(self, operation: str, number: int, partial: bool) -> None:
        """The workload once for every call of `operation`, which then fails; until there is no such call any more."""
        for nth in range(self._first, _QUIET_CALLS_MAX, self.plan.stride):
            kind = f"{errno.errorcode[number]} on {operation} {nth}{', partly done' if partial else ''}"

            def prepare(disk: SimDisk, nth: int = nth) -> None:
                disk.fail(operation, nth=nth, error=number, partial=partial)

            world = self._play(derived(self.seed, self.name, kind), prepare, _UNWATCHED)
            if world.disk.faults_waiting and not world.stopped and len(_calls(world.disk, operation)) < nth:
                return
            self.result.fault_points += 1
            self._report(0, kind, world.problems)
            for mode in _modes_after_fault(world.disk, operation, nth, self.scenario.is_log):
                disk = world.disk.crash(mode)
                disk.heal()
                self._recover(_Outcome(disk, world.expected.copy(), mode != "keep_all", 0, f"{kind}, {mode}"))

    # ---- what comes after

    def _crash_in_recovery(self, outcome: _Outcome, number: int) -> None:
        """The power fails again before it is open: at some or all of the operations that opening takes."""
        dry = self._world(outcome._replace(expected=outcome.expected.copy()), _twin(outcome.disk))
        try:
            dry.open()
        except (Stopped, *_BROKEN):
            return  # the recovery itself is at fault, and will be found so
        chance = random.Random(derived(self.seed, self.name, outcome.operation, number))
        points = range(1, dry.disk.operations + 1)
        for point in sorted(chance.sample(points, min(len(points), self.plan.second_crashes_max))):
            self.result.crash_points += 1
            disk = _twin(outcome.disk)
            disk.crash_at(point)
            world = self._world(outcome._replace(expected=outcome.expected.copy()), disk)
            with suppress(PowerLost):
                world.open()
            for _ in range(self.plan.second_outcomes):
                mode = chance.choice(crash_modes(self.plan))
                died = outcome.machine_died or mode != "keep_all"
                label = f"{outcome.mode}; then in recovery at operation {point}, {mode}"
                expected = world.expected.copy()
                self._recover(_Outcome(disk.crash(mode), expected, died, outcome.operation, label))

    def _recover(self, outcome: _Outcome) -> None:
        """Opens, checks, uses; then the power goes once more, and what was promised since must be there."""
        self.result.recoveries += 1
        outcome.disk.set_capacity(None)
        world = self._world(outcome, outcome.disk)
        problems = self._attempt(world, "recovery", outcome.machine_died, _open_and_use)
        if not problems:
            mode: CrashMode = "lose_all" if self.result.recoveries % 2 else "random"
            world = self._world(outcome._replace(expected=world.expected), world.disk.crash(mode))
            problems = self._attempt(world, f"{mode} after the recovery", True, _open_and_check)
        self._report(outcome.operation, outcome.mode, problems)

    def _attempt(
        self, world: SimulatedWorld, step: str, machine_died: bool, action: Callable[[SimulatedWorld, bool], None]
    ) -> list[str]:
        try:
            action(world, machine_died)
        except (Stopped, *_BROKEN) as error:
            cause = error.__cause__ if isinstance(error, Stopped) and error.__cause__ is not None else error
            world.problems.append(f"raised {cause!r}")
        self._note(world.disk)
        return [f"{step}: {problem}" for problem in world.problems]

    def _world(self, outcome: _Outcome, disk: SimDisk) -> SimulatedWorld:
        data_seed = derived(self.seed, self.name, outcome.operation, outcome.mode)
        world = self.scenario.world(disk, data_seed, outcome.expected)
        world.watch_from = _UNWATCHED
        return world

    # ---- what is found

    def _note(self, disk: SimDisk) -> None:
        self._digest.update(repr(disk.trace).encode())

    def _report(self, operation: int, mode: str, problems: list[str]) -> None:
        for what in problems:
            self.result.violations.append(Violation(self.name, self.seed, operation, mode, what))
            self._digest.update(what.encode())
            if len(self.result.violations) >= self.plan.violations_max:
                raise _Enough


def _open_and_check(world: SimulatedWorld, machine_died: bool) -> None:
    world.open()
    world.check(machine_died=machine_died)


def _open_and_use(world: SimulatedWorld, machine_died: bool) -> None:
    _open_and_check(world, machine_died)
    world.use()


def _leave_alone(_disk: SimDisk) -> None:
    """For the run that nothing disturbs."""


def _fault_kinds() -> Iterator[tuple[str, int, bool]]:
    """Operation, error and whether a part gets done, for every call that can fail."""
    for operation in OPERATIONS:
        yield operation, errno.EIO, False
        if operation in ("write", "sync", "sync_directory"):
            yield operation, errno.EIO, True
        if operation in MUTATIONS:
            yield operation, errno.ENOSPC, operation == "write"


def _calls(disk: SimDisk, operation: str) -> list[TraceEntry]:
    return [entry for entry in disk.trace if entry[0] == operation]


def _modes_after_fault(disk: SimDisk, operation: str, nth: int, is_log: Callable[[str], bool]) -> list[CrashMode]:
    """A new process on the same machine, and a power cut.

    Not the former when the fsync that failed was to keep a directory above those of the logs: a name that an fsync has
    given up is made durable only by making it anew, and directories are not made anew.
    """
    if operation not in MUTATIONS:
        return ["keep_all"]
    calls = _calls(disk, operation)
    if operation == "sync_directory" and len(calls) >= nth and not is_log(str(calls[nth - 1][1])):
        return ["random", "lose_all"]
    return ["keep_all", "random" if nth % 2 else "lose_all"]


def _twin(disk: SimDisk) -> SimDisk:
    """The same disk once more, with the same cache: one state for several continuations."""
    return disk.crash("keep_all")


def _state(disk: SimDisk) -> bytes:
    digest = hashlib.sha256()
    for path, content in disk.files().items():
        digest.update(f"{path} {len(content)} ".encode() + content)
    return digest.digest()
