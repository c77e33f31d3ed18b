"""Randomness of the operating system. Nothing is seeded here."""

from __future__ import annotations

import os


class RealEntropy:
    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)
