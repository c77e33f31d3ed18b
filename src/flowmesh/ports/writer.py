"""Who turns submitted batches into durable blocks. The cores submit and are told; the host does the waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

LogT_contra = TypeVar("LogT_contra", contravariant=True)
BatchT_contra = TypeVar("BatchT_contra", contravariant=True)
ResultT_co = TypeVar("ResultT_co", covariant=True)


class Writer(Protocol[LogT_contra, BatchT_contra, ResultT_co]):
    def submit(
        self, log: LogT_contra, group: Sequence[BatchT_contra], done: Callable[[Sequence[ResultT_co]], None]
    ) -> None:
        """Appends `group` to `log` some time soon, together with what else waits for it. `done` gets one result for
        each batch, when the log's durability policy is satisfied, on whatever thread the host delivers on."""
        ...
