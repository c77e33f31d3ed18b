"""What wires report about themselves. Observability implements it; a wire that is given none reports to nobody."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    def operation(self, name: str, wire: str, duration_s: float, outcome: str) -> None:
        """One request is over; `outcome` is `OK` or an error code."""
        ...

    def connections(self, wire: str, change: int) -> None:
        """A connection was opened (1) or closed (-1)."""
        ...


class Unobserved:
    def operation(self, name: str, wire: str, duration_s: float, outcome: str) -> None:
        del name, wire, duration_s, outcome

    def connections(self, wire: str, change: int) -> None:
        del wire, change
