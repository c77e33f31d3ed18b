"""FlowMesh and Spark: source, sink, archive and pipelines. Needs the `spark` extra; nothing below imports it.

Only names live here. `session` is loaded once it is asked for, so that importing the package imports no Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowmesh.spark.archive.reads import read
    from flowmesh.spark.sessions import session

__all__ = ["read", "session"]


def __getattr__(name: str) -> object:
    if name == "session":
        from flowmesh.spark import sessions

        return sessions.session
    if name == "read":
        from flowmesh.spark.archive import reads

        return reads.read
    raise AttributeError(f"module 'flowmesh.spark' has no attribute {name!r}")
