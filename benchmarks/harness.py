"""How a figure is taken: the subject and its reference in turn, several rounds, medians. No subject lives here."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from benchmarks.place import Place, Sizes
from flowmesh.base.limits import MIB


class Unit(StrEnum):
    """How a sample is shown. Samples are seconds for a whole round, but for MEMORY, where they are bytes."""

    BYTES = "MB/s"
    RECORDS = "k records/s"
    OPERATIONS = "µs"
    MEMORY = "MiB"


class Row(NamedTuple):
    """One line of the table as it is documented: what is done, beside what, and how near it has to come."""

    work: str
    against: str
    at_least: float | None = None
    aim: float | None = None
    """A ratio to strive for that is printed and never judged."""

    @property
    def bound(self) -> str:
        if self.at_least is not None:
            return f"{self.at_least:g}"
        return f"aim {self.aim:g}" if self.aim is not None else "–"


class Samples(NamedTuple):
    """One number for each round, of the subject and of the reference that ran beside it."""

    subject: list[float]
    reference: list[float]


@dataclass(frozen=True)
class Result:
    row: Row
    samples: Samples
    unit: Unit
    volume: int = 1
    """Bytes, records or operations of one round: what turns its seconds into the figure that is shown."""
    note: str = ""

    @property
    def ratios(self) -> list[float]:
        """Above 1 the subject is better than its reference. Each round is compared with its own neighbour only."""
        return [theirs / ours for ours, theirs in zip(self.samples.subject, self.samples.reference, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def verdict(self) -> str:
        if self.row.at_least is None:
            return "printed"
        return "ok" if self.ratio >= self.row.at_least else "below"

    def shown(self, samples: list[float]) -> str:
        middle = statistics.median(samples)
        if self.unit is Unit.BYTES:
            return f"{self.volume / middle / 1e6:,.0f} MB/s"
        if self.unit is Unit.RECORDS:
            return f"{self.volume / middle / 1e3:,.0f} k records/s"
        if self.unit is Unit.MEMORY:
            return f"{middle / MIB:,.1f} MiB"
        return f"{middle / self.volume * 1e6:,.1f} µs"

    def document(self) -> dict[str, Any]:
        """Everything, every sample of every round, for `--json`."""
        return {
            "work": self.row.work,
            "against": self.row.against,
            "ratio": self.ratio,
            "at_least": self.row.at_least,
            "aim": self.row.aim,
            "verdict": self.verdict,
            "runs": len(self.samples.subject),
            "unit": self.unit.name.lower(),
            "volume": self.volume,
            "subject": self.samples.subject,
            "reference": self.samples.reference,
            "note": self.note,
        }


class Benchmark(NamedTuple):
    name: str
    rows: tuple[Row, ...]
    run: Callable[[Place], list[Result]]
    disk_bytes: Callable[[Sizes], int]
    """The most that the run has on disk at once."""


Work = Callable[[], object]


def timed(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median_of(repeats: int, work: Work) -> float:
    """One call of work too short for a round: a sum would charge it for every time slice that went to somebody else."""
    return statistics.median([timed(work) for _ in range(repeats)])


def alternate(rounds: int, subject: Callable[[], float], reference: Callable[[], float]) -> Samples:
    """A B B A A B …: neighbours share the machine's mood, and neither side always comes first. Both return seconds.

    One round of each goes before and is not counted: it fills caches, and every run needs it alike.
    """
    reference()
    subject()
    samples = Samples([], [])
    for turn in range(rounds):
        if turn % 2:
            samples.reference.append(reference())
            samples.subject.append(subject())
        else:
            samples.subject.append(subject())
            samples.reference.append(reference())
    return samples


def nothing_on_disk(_sizes: Sizes) -> int:
    return 0
