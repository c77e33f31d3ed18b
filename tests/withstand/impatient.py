"""A real node with shorter deadlines than any setting allows, so that a test of them need not take minutes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.serve.nodes import Served, serving

DEADLINES: Mapping[str, Mapping[str, float]] = {
    "flowmesh.api.http.bounds": {"HEAD_TIMEOUT_S": 1.0, "BODY_WINDOW_S": 1.0, "STALL_TIMEOUT_S": 1.0},
    "flowmesh.base.limits": {"FRAME_HELLO_MS": 1000, "FRAME_UNFINISHED_MS": 1000, "SUBSCRIPTION_STALL_MS": 1000},
}
"""Set before anything else is imported, so that all see them."""
_SET = "".join(
    f"import {module}\n" + "".join(f"{module}.{name} = {value}\n" for name, value in names.items())
    for module, names in DEADLINES.items()
)
_PROGRAM = ("-c", f"{_SET}from flowmesh.cli.main import main\nmain()")


@contextmanager
def impatient_node(data_dir: Path) -> Iterator[Served]:
    with serving(data_dir, program=_PROGRAM) as node:
        yield node
