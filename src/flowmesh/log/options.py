"""How one log is kept: segment limits, caches and the reserve. Frozen; to change it, open the log anew."""

from __future__ import annotations

from dataclasses import dataclass

from flowmesh.base import limits
from flowmesh.base.durability import BATCH, Durability
from flowmesh.base.errors import BadRequest


@dataclass(frozen=True, slots=True)
class LogOptions:
    segment_bytes: int = limits.SEGMENT_BYTES_DEFAULT
    segment_records: int = limits.SEGMENT_RECORDS_DEFAULT
    segment_age_ns: int = limits.SEGMENT_AGE_DEFAULT_NS
    tail_cache_bytes: int = limits.TAIL_CACHE_BYTES_DEFAULT
    disk_reserve_bytes: int = limits.DISK_RESERVE_BYTES_DEFAULT
    index_persist_bytes: int = limits.INDEX_PERSIST_BYTES
    leader_epoch: int = 0
    durability: Durability = BATCH

    def __post_init__(self) -> None:
        for name, least, most in (
            ("segment_bytes", limits.SEGMENT_BYTES_MIN, limits.SEGMENT_BYTES_MAX),
            ("segment_records", 1, 2**63 - 1),
            ("segment_age_ns", 1, 2**63 - 1),
            ("tail_cache_bytes", 0, limits.GIB),
            ("disk_reserve_bytes", 0, 2**63 - 1),
            ("index_persist_bytes", 1, 2**63 - 1),
            ("leader_epoch", 0, 2**32 - 1),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise BadRequest(f"{name} is {value}; it goes from {least} to {most}.", field=name)
