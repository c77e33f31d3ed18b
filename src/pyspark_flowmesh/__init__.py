"""What Spark finds by itself: `spark.read.format("flowmesh")`, with nothing to register."""

from __future__ import annotations

from typing import Any

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    """Imports late: Spark imports every module named pyspark_*, and one that fails hides all the others."""
    if name == "DefaultSource":
        try:
            from flowmesh.spark.source import FlowMeshSource
        except ImportError as error:
            raise AttributeError(f"{name}: {error}") from error
        return FlowMeshSource
    raise AttributeError(name)
