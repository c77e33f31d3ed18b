"""Which call of a simulated disk fails, and how. What a failure does to the data is the disk's to say."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase

MUTATIONS = ("write", "truncate", "sync", "create", "rename", "remove", "make_directory", "sync_directory")
"""The operations that have an index, and at which the power can be cut."""

OPERATIONS = (*MUTATIONS, "open", "read", "names", "free_bytes", "lock")
"""The operations that can be made to fail."""


@dataclass(slots=True)
class Fault:
    operation: str
    skip: int
    times: int
    error: int
    partial: bool
    path: str


class Faults:
    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self.struck: list[str] = []
        """The paths of the calls that they have made to fail."""

    def add(self, operation: str, *, nth: int, times: int, error: int, partial: bool, path: str) -> None:
        # A fault that can never strike would make a test that cannot fail.
        assert operation in OPERATIONS, f"{operation!r} is none of {OPERATIONS}"
        assert min(nth, times) >= 1
        self._faults.append(Fault(operation, nth - 1, times, error, partial, path))

    def clear(self) -> None:
        self._faults.clear()

    def strike(self, operation: str, path: str) -> Fault | None:
        """The fault that this call meets, if any. Calls that another fault strikes count towards `nth` as well."""
        struck: Fault | None = None
        for fault in self._faults:
            if fault.operation != operation or not fnmatchcase(path, fault.path):
                continue
            if fault.skip:
                fault.skip -= 1
            elif struck is None and fault.times:
                fault.times -= 1
                struck = fault
        if struck is not None:
            self.struck.append(path)
        return struck

    @property
    def waiting(self) -> int:
        """How many faults have not struck as often as they were meant to."""
        return sum(1 for fault in self._faults if fault.times)


def os_error(number: int, path: str) -> OSError:
    """The exception that the operating system's call would raise; Python picks the subclass by the number."""
    return OSError(number, os.strerror(number), path)
