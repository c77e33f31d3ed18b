"""What a child program is told: one JSON text in its arguments."""

from __future__ import annotations

import os

import msgspec

from flowmesh.base.durability import Durability
from flowmesh.base.limits import KIB, MIB
from flowmesh.log.options import LogOptions


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    directory: str
    report: int = 1
    """The descriptor that gets a line for everything that happened."""
    seed: int = 1
    policy: str = "batch"
    segment_bytes: int = 64 * KIB
    index_persist_bytes: int = 64 * KIB
    reserve_bytes: int = 0
    retention_bytes: int = 1 * MIB
    appends: int = 1_000_000
    """The program ends by itself after so many, so that a forgotten child is no child forever."""
    in_flight: int = 8
    roll_every: int = 0
    trim_every: int = 0
    after_failure: int = 20
    """How many more appends are tried once one was refused."""
    total_bytes: int = 0
    """How much `memory_process` writes and reads."""
    stop_when_healed: bool = False
    """End with the first append that is accepted after one was refused."""

    def encoded(self) -> str:
        return msgspec.json.encode(self).decode()

    def options(self) -> LogOptions:
        return LogOptions(
            segment_bytes=self.segment_bytes,
            index_persist_bytes=self.index_persist_bytes,
            disk_reserve_bytes=self.reserve_bytes,
            tail_cache_bytes=256 * KIB,
            durability=Durability.parse(self.policy),
        )

    def tell(self, *lines: str) -> None:
        """One system call for all of it: whoever listens knows at once, and a kill cuts the last line at most."""
        if lines:
            os.write(self.report, "".join(f"{line}\n" for line in lines).encode())


def from_arguments(arguments: list[str]) -> Settings:
    return msgspec.json.decode(arguments[1], type=Settings)
