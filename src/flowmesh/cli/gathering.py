"""Lines gathered into batches: plain ones as they are, NDJSON ones taken apart. Knows nothing of logs and writers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from flowmesh.base.errors import FlowMeshError
from flowmesh.base.limits import MIB
from flowmesh.cli.ndjson import BadLine, InputRecord, parse
from flowmesh.format.batch import Batch, Codec
from flowmesh.format.columns import encode

BATCH_BYTES = MIB
"""A block of this size is worth its hash and its checksum; a larger one makes readers take more than they want."""


class LineGathering:
    """What was read and is not yet in a batch."""

    def __init__(self, batch_records: int, codec: Codec, *, ndjson: bool) -> None:
        self._batch_records = batch_records
        self._codec = codec
        self._ndjson = ndjson
        self._lines: list[bytes] = []
        self._records: list[InputRecord] = []
        self._size = 0

    @property
    def count(self) -> int:
        return len(self._records) if self._ndjson else len(self._lines)

    @property
    def is_large(self) -> bool:
        return self._size >= BATCH_BYTES

    def add(self, lines: Sequence[bytes], first_line: int) -> FlowMeshError | None:
        """What was wrong with a line, if one was: the lines before it are kept, it and those after it are not."""
        self._size += sum(map(len, lines))
        if not self._ndjson:
            self._lines += lines
            return None
        for number, line in enumerate(lines, first_line):
            if line and not line.isspace():
                try:
                    self._records.append(parse(line))
                except BadLine as error:
                    return error.at(number)
        return None

    def batches(self, *, everything: bool) -> Iterator[Batch]:
        """Full batches; and with `everything` the one that is not full."""
        count, size = self.count, self._batch_records
        taken = count if everything else count - count % size
        for start in range(0, taken, size):
            yield self._encode(start, min(start + size, taken))
        del self._lines[:taken], self._records[:taken]
        self._size = self._size * (count - taken) // count if count else 0

    def _encode(self, start: int, end: int) -> Batch:
        if not self._ndjson:
            return encode(self._lines[start:end], codec=self._codec)
        values, keys, headers, times = zip(*self._records[start:end], strict=True)
        return encode(
            values,
            keys=keys if any(key is not None for key in keys) else None,
            headers=headers if any(headers) else None,
            times_ns=_stamped(times),
            codec=self._codec,
        )


def _stamped(times: Sequence[int | None]) -> list[int] | None:
    """Without any time the log stamps the batch; with some, the others get the time of now."""
    given = [time_ns for time_ns in times if time_ns is not None]
    if not given:
        return None
    now = time.time_ns()
    return given if len(given) == len(times) else [now if time_ns is None else time_ns for time_ns in times]
