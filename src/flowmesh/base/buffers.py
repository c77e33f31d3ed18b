"""The one name for 'anything that holds bytes', so that signatures say it alike."""

from __future__ import annotations

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
