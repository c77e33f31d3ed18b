"""FlowMesh: events, jobs, state and live hand-offs on one hash-chained log.

Only names live here, so that importing the package costs nothing; the client is loaded once it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowmesh.base.version import VERSION

if TYPE_CHECKING:
    from flowmesh.client import Client, connect, connect_blocking

__version__ = VERSION
__all__ = ["Client", "__version__", "connect", "connect_blocking"]

_OF_THE_CLIENT = ("Client", "connect", "connect_blocking")


def __getattr__(name: str) -> object:
    if name in _OF_THE_CLIENT:
        from flowmesh import client

        return getattr(client, name)
    raise AttributeError(f"module 'flowmesh' has no attribute {name!r}")
