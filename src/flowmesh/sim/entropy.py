"""Randomness that comes back with its seed. It never asks the operating system."""

from __future__ import annotations

import random


class SimEntropy:
    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)
