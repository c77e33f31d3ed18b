"""What a log must hold after whatever happened to it. The expected values are kept here, outside the log, and nothing
here asks the log how it works: what was sent, what was promised, and what somebody was shown are all it goes by."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from flowmesh.base.errors import DiskFull, FlowMeshError
from flowmesh.format.columns import Header, decode
from flowmesh.log.scan import Block
from flowmesh.log.sealing import Appended
from flowmesh.log.view import LogView

TAG_BYTES = 8
"""Every first value of a batch begins with the number under which it was sent, so that a block names its origin."""
READ_BYTES = 4096


class Fate(StrEnum):
    UNKNOWN = "of unknown outcome"
    WRITTEN = "acknowledged as written"
    DURABLE = "acknowledged as durable"
    NEVER = "refused, or found missing once"


class Row(NamedTuple):
    """One record as it was sent. Without a time it gets its block's."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    time_ns: int | None = None


@dataclass(slots=True)
class Sent:
    rows: tuple[Row, ...]
    fate: Fate = Fate.UNKNOWN
    base_offset: int = -1
    block_hash: bytes = b""

    def copy(self) -> Sent:
        return Sent(self.rows, self.fate, self.base_offset, self.block_hash)


@dataclass(slots=True)
class Expectations:
    sent: list[Sent] = field(default_factory=list)
    start_least: int = 0
    start_most: int = 0
    """A trim that a crash interrupted may or may not have happened."""
    shown_end: int = 0
    """How far any reader has ever seen: that may never be lost, acknowledged or not."""

    def copy(self) -> Expectations:
        sent = [item.copy() for item in self.sent]
        return Expectations(sent, self.start_least, self.start_most, self.shown_end)

    def sending(self, rows: tuple[Row, ...]) -> int:
        self.sent.append(Sent(rows))
        return len(self.sent) - 1

    def told(self, number: int, result: Appended | FlowMeshError, *, after_sync: bool) -> None:
        if isinstance(result, Appended):
            self.acknowledged(number, result.base_offset, result.block_hash, after_sync=after_sync)
        else:
            self.refused(number, result)

    def acknowledged(self, number: int, base_offset: int, block_hash: bytes = b"", *, after_sync: bool) -> None:
        item = self.sent[number]
        item.fate = Fate.DURABLE if after_sync else Fate.WRITTEN
        item.base_offset, item.block_hash = base_offset, block_hash

    def refused(self, number: int, error: FlowMeshError) -> None:
        """Only a refusal for want of space says that nothing was written."""
        if isinstance(error, DiskFull):
            self.sent[number].fate = Fate.NEVER

    def synced(self) -> None:
        """A sync succeeded: what was only written is durable now."""
        for item in self.sent:
            if item.fate is Fate.WRITTEN:
                item.fate = Fate.DURABLE

    def shown(self, end_offset: int) -> None:
        self.shown_end = max(self.shown_end, end_offset)

    def trimming(self, start_most: int) -> None:
        self.start_most = max(self.start_most, start_most)

    def trimmed(self, start_offset: int) -> list[str]:
        """A trim has been acknowledged; from now on the log begins there and nowhere else."""
        wrong = self._start_problems(start_offset)
        self.start_least = start_offset
        return wrong

    def check(self, view: LogView, *, machine_died: bool) -> list[str]:
        """What is wrong with the log just recovered. What it holds is taken for promised from here on; what it does
        not hold may never come back. Reading may raise whatever the log raises."""
        problems = self._start_problems(view.start_offset)
        problems += [f"damage: {damage.describe()}" for damage in view.damage]
        blocks = list(view.blocks(bytes_max=READ_BYTES))
        found = self._match(view.start_offset, blocks, problems)
        end_offset = blocks[-1].end_offset if blocks else view.start_offset
        if end_offset != view.end_offset:
            problems.append(f"the blocks end at offset {end_offset}, the view says {view.end_offset}")
        if view.end_offset < self.shown_end:
            problems.append(f"a reader was shown offset {self.shown_end - 1}; the log now ends at {view.end_offset}")
        for number, item in enumerate(self.sent):
            block = found.get(number)
            if block is not None:
                item.fate, item.base_offset, item.block_hash = Fate.DURABLE, block.base_offset, block.header.hash
            elif 0 <= item.base_offset < view.start_offset:
                continue  # trimmed, and the bounds of the trim were checked
            else:
                promised = item.fate is Fate.DURABLE or (item.fate is Fate.WRITTEN and not machine_died)
                if promised:
                    problems.append(f"batch {number} at offset {item.base_offset}, {item.fate.value}, is lost")
                item.fate = Fate.NEVER
        self.start_least = self.start_most = view.start_offset
        self.shown(view.end_offset)
        return problems

    def _start_problems(self, start_offset: int) -> list[str]:
        if self.start_least <= start_offset <= self.start_most:
            return []
        return [f"the log begins at offset {start_offset}, not in [{self.start_least}, {self.start_most}]"]

    def _match(self, offset: int, blocks: list[Block], problems: list[str]) -> dict[int, Block]:
        """Each block by the number of the batch that it is; dense, in the order of sending, each once."""
        found: dict[int, Block] = {}
        last = -1
        for block in blocks:
            if block.base_offset != offset:
                problems.append(f"a block begins at offset {block.base_offset}, {offset} is the next")
            offset = block.end_offset
            number = _number(block)
            if not 0 <= number < len(self.sent):
                problems.append(f"the block at offset {block.base_offset} was never sent")
                continue
            if number <= last:
                problems.append(f"batch {number} at offset {block.base_offset} stands behind batch {last}")
            last = max(last, number)
            found[number] = block
            problems += _differences(number, self.sent[number], block)
        return found


def _number(block: Block) -> int:
    value = decode(block.batch).records()[0].value or b""
    digits = value[:TAG_BYTES]
    return int(digits) if len(digits) == TAG_BYTES and digits.isdigit() else -1


def _differences(number: int, item: Sent, block: Block) -> list[str]:
    place = f"batch {number} at offset {block.base_offset}"
    problems = []
    if item.fate is Fate.NEVER:
        problems.append(f"{place}, {item.fate.value}, is there")
    records = decode(block.batch).records()
    stamp = block.header.timestamp_ns
    expected = [row if row.time_ns is not None else row._replace(time_ns=stamp) for row in item.rows]
    if [Row(record.key, record.value, record.headers, record.time_ns) for record in records] != expected:
        problems.append(f"{place} has other records than were sent")
    if item.base_offset >= 0 and item.base_offset != block.base_offset:
        problems.append(f"{place} was acknowledged at offset {item.base_offset}")
    if item.block_hash and item.block_hash != block.header.hash:
        problems.append(f"{place} has another hash than was acknowledged")
    return problems
