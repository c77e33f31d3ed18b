"""What an acknowledgement promises: the three policies, and how they are spelled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flowmesh.base.errors import BadRequest
from flowmesh.base.limits import INTERVAL_MS_MAX


class Policy(StrEnum):
    ALWAYS = "always"
    BATCH = "batch"
    INTERVAL = "interval"


@dataclass(frozen=True, slots=True)
class Durability:
    """`always`: each append has an fsync of its own. `batch`: an fsync covers a group, and the ack follows it.
    `interval:<ms>`: the ack follows the write, and a power cut may lose the last `<ms>` milliseconds."""

    policy: Policy
    interval_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> Durability:
        name, _, milliseconds = text.partition(":")
        if name == Policy.ALWAYS and not milliseconds:
            return ALWAYS
        if name == Policy.BATCH and not milliseconds:
            return BATCH
        if name == Policy.INTERVAL and milliseconds.isascii() and milliseconds.isdigit() and len(milliseconds) < 9:
            interval_ms = int(milliseconds)
            if 1 <= interval_ms <= INTERVAL_MS_MAX:
                return cls(Policy.INTERVAL, interval_ms)
        raise BadRequest(
            f"durability {text!r} is unknown.",
            field="durability",
            hint=f"Use 'always', 'batch' or 'interval:<ms>' with 1 to {INTERVAL_MS_MAX} ms.",
        )

    @property
    def acks_after_sync(self) -> bool:
        return self.policy is not Policy.INTERVAL

    @property
    def loss_window_ms(self) -> int:
        """What a power cut may take of what was acknowledged. A killed process loses nothing in any policy."""
        return self.interval_ms

    def __str__(self) -> str:
        return f"{self.policy.value}:{self.interval_ms}" if self.policy is Policy.INTERVAL else self.policy.value


ALWAYS = Durability(Policy.ALWAYS)
BATCH = Durability(Policy.BATCH)
