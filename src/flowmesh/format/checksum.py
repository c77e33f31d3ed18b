"""CRC32C, the checksum of every FlowMesh file. It guards against accidents; against intent there is the hash chain."""

from __future__ import annotations

from fastcrc.crc32 import iscsi as crc32c

__all__ = ["crc32c"]
