"""Randomness, as the cores see it."""

from __future__ import annotations

from typing import Protocol


class Entropy(Protocol):
    def random_bytes(self, count: int) -> bytes: ...
