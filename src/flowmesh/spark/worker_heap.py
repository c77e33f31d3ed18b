"""The heap of Spark's Python workers: what their modules made stays out of the way of the garbage collector."""

from __future__ import annotations

import gc
import sys

_DAEMON = "pyspark.daemon"
_settled = False


def settle() -> None:
    """Called at the end of a task or of a plan; the first one in a worker has imported all that it will ever need.

    Spark's daemon collects garbage after each task, and each time goes through all that pyspark, pandas and pyarrow
    made when they were imported: some 50 ms, for which the next task on that core has to wait.
    """
    global _settled  # noqa: PLW0603 (of this process, as the heap is)
    if not _settled and _forked_by_the_daemon():
        _settled = True
        gc.collect()
        gc.freeze()


def _forked_by_the_daemon() -> bool:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == _DAEMON
