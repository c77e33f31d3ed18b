"""Seeds out of names and numbers, the same in every process."""

from __future__ import annotations

import hashlib


def derived(*parts: str | int) -> int:
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "big")
