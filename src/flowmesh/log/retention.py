"""How long a log is kept: by age, by bytes, and never below a hold."""

from __future__ import annotations

from dataclasses import dataclass

from flowmesh.base.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Retention:
    """None means: without that limit. Age counts from a segment's last block; bytes count all segments."""

    age_ns: int | None = None
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("age_ns", "size_bytes"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise BadRequest(f"retention {name} is {value}; it cannot be negative.", field=name)
