"""The audit log: who was refused and who changed what, one JSON object a line, on the logger `flowmesh.audit`.

It holds ids of tokens and never a secret. Refusals are bounded in rate, because anybody can cause them; changes are
not, because each one costs an fsync already.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from flowmesh.access.tokens import masked
from flowmesh.api.admission import Denial
from flowmesh.api.service import Change
from flowmesh.observability.metrics import Metrics
from flowmesh.ports.clock import Clock

DENIALS_PER_SECOND = 20
DENIALS_BURST = 200
logger = logging.getLogger("flowmesh.audit")


class AuditLog:
    """Called on the event loop alone."""

    def __init__(self, clock: Clock, metrics: Metrics | None = None) -> None:
        self._clock = clock
        self._metrics = metrics
        self._credit = float(DENIALS_BURST)
        self._credited_ns = clock.monotonic_ns()
        self._unwritten = 0

    def denied(self, denial: Denial) -> None:
        code = denial.error.code.value
        if self._metrics is not None:
            self._metrics.denials[code] = self._metrics.denials.get(code, 0) + 1
        if not self._may_write():
            self._unwritten += 1
            return
        fields: dict[str, Any] = {
            "event": "denied",
            "operation": denial.operation,
            "peer": denial.peer,
            "token": denial.token_id or None,
            "code": code,
        }
        if self._unwritten:
            fields["unwritten_before"], self._unwritten = self._unwritten, 0
        _write(logging.WARNING, fields)

    def changed(self, change: Change) -> None:
        fields = {"event": "changed", **change._asdict(), "target": masked(change.target)}
        _write(logging.INFO, fields)

    def _may_write(self) -> bool:
        now = self._clock.monotonic_ns()
        earned = (now - self._credited_ns) / 1e9 * DENIALS_PER_SECOND
        self._credit, self._credited_ns = min(self._credit + earned, DENIALS_BURST), now
        if self._credit < 1:
            return False
        self._credit -= 1
        return True


def _write(level: int, fields: dict[str, Any]) -> None:
    logger.log(level, "%s", json.dumps(fields, separators=(",", ":")), extra={"fields": fields})
