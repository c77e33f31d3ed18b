"""Where things lie under a data directory. Directories are named by hashes, never by what users typed."""

from __future__ import annotations

import hashlib

from flowmesh.base.limits import CHAIN_NAME_BYTES_MAX

NODE_FILE = "node.json"
LOCK_FILE = "lock"
CATALOG = "metadata/catalog/0"
GROUPS = "metadata/groups/0"
STREAMS = "streams"
RESOURCE_FILE = "resource.json"
_HASH_HEX = 16
_DOOMED = ".deleted-"


def resource_directory(kind: str, path: str) -> str:
    return f"{kind}/{hashlib.sha256(path.encode()).hexdigest()[:_HASH_HEX]}"


def doomed_directory(kind: str, path: str, resource_id: int) -> str:
    """Where a deleted resource waits to be removed: a new one of the same name may be made meanwhile."""
    return f"{resource_directory(kind, path)}{_DOOMED}{resource_id}"


def is_doomed(name: str) -> bool:
    return _DOOMED in name


def chain_name(kind: str, path: str, partition: int) -> str:
    """What a partition's chain is called. A path that is too long is named by its hash."""
    name = f"{kind}:{path}:{partition}"
    if len(name.encode()) <= CHAIN_NAME_BYTES_MAX:
        return name
    return f"{kind}:sha256:{hashlib.sha256(path.encode()).hexdigest()}:{partition}"
