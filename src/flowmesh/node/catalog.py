"""The catalog's partition: the catalog machine on the metadata log, one change at a time."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from flowmesh.base.errors import FlowMeshError
from flowmesh.catalog import events
from flowmesh.catalog.commands import Command
from flowmesh.catalog.machine import CatalogMachine
from flowmesh.format import columns
from flowmesh.format.batch import BatchKind
from flowmesh.log.appender import Appender
from flowmesh.node import snapshots
from flowmesh.ports.clock import Clock
from flowmesh.ports.disk import Disk


class CatalogPartition:
    def __init__(self, disk: Disk, clock: Clock, appender: Appender) -> None:
        self.appender = appender
        self.machine = CatalogMachine()
        self._disk = disk
        self._clock = clock
        self._fold()

    def _fold(self) -> None:
        view = self.appender.view
        restored = snapshots.load(self._disk, self.appender.directory, view, self.machine.state_version)
        if restored.state is not None:
            self.machine.restore(restored.state)
        for block in view.blocks(restored.next_offset):
            for value in columns.decode(block.batch).values.items():
                self.machine.apply(events.decode(value))

    def require(self, command: Command) -> None:
        """Raises what `execute` would raise, and changes nothing."""
        self.machine.decide(command, self.appender.written_end, self._clock.wall_ns())

    def execute(self, command: Command) -> Any:
        """Decides, and returns once what was decided is durable. Changes are rare, so each has its own fsync."""
        decision = self.machine.decide(command, self.appender.written_end, self._clock.wall_ns())
        if not decision.events:
            return decision.reply
        values = [events.encode(event) for event in decision.events]
        (result,) = self.appender.write([columns.encode(values, kind=BatchKind.CONTROL)])
        if isinstance(result, FlowMeshError):
            raise result
        self.appender.sync()
        for event in decision.events:
            self.machine.apply(event)
        return decision.reply

    def close(self) -> None:
        try:
            if self.appender.failure is None:
                self.appender.sync()
                state, version = self.machine.snapshot(), self.machine.state_version
                with suppress(OSError):  # the log can tell it all again
                    snapshots.save(self._disk, self.appender.directory, self.appender.view, version, state)
        finally:
            self.appender.close()
