"""The names of the files of an archive, and which of them is what. What begins with `_` no reader of Parquet opens."""

from __future__ import annotations

import re

DIRECTORY = "_flowmesh"
TEMPORARY = f"{DIRECTORY}/temporary"
LOCK = f"{DIRECTORY}/lock"
_MANIFEST = re.compile(r"manifest-([0-9]{9})\.json")
_DATA = re.compile(r"p([0-9]{5})-([0-9]{19})-([0-9]{19})-[0-9a-f]{8}\.parquet")
MANIFEST_NUMBER_MAX = 999_999_999


def manifest_name(number: int) -> str:
    assert 1 <= number <= MANIFEST_NUMBER_MAX
    return f"{DIRECTORY}/manifest-{number:09d}.json"


def manifest_number(name: str) -> int | None:
    """The number in the last part of a manifest's name."""
    match = _MANIFEST.fullmatch(name)
    return int(match[1]) if match is not None else None


def data_name(chain_hash: bytes, partition: int, base_offset: int, end_offset: int) -> str:
    """The same for the same records of the same chain, whoever writes them and however often."""
    return f"p{partition:05d}-{base_offset:019d}-{end_offset:019d}-{chain_hash[:4].hex()}.parquet"


def is_data(name: str) -> bool:
    return _DATA.fullmatch(name) is not None
