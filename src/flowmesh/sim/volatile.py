"""What one simulated file holds: what a reader sees, what a power cut leaves, and the writes between the two.
No names and no faults here."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TypeAlias

SECTOR_BYTES = 512
"""A disk writes a sector whole or not at all: the unit in which an unsynced write is torn."""

_GARBAGE_FILE_CHANCE = 1 / 8
_GARBAGE_SECTOR_CHANCE = 1 / 8

Edit: TypeAlias = tuple[int, bytes | None]
"""A write as (position, data), or a truncation as (size, None)."""


@dataclass(slots=True)
class FileContent:
    visible: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[Edit] = field(default_factory=list)

    def __deepcopy__(self, _memo: object) -> FileContent:
        return FileContent(bytearray(self.visible), bytearray(self.durable), list(self.unsynced))

    def write(self, position: int, data: bytes) -> None:
        if data:
            self._edit((position, data))

    def truncate(self, size: int) -> None:
        self._edit((size, None))

    def _edit(self, edit: Edit) -> None:
        _apply(self.visible, edit)
        self.unsynced.append(edit)

    def sync(self) -> None:
        # A writer in another thread may add edits meanwhile: only those counted here are covered.
        count = len(self.unsynced)
        for edit in self.unsynced[:count]:
            _apply(self.durable, edit)
        del self.unsynced[:count]

    def forget_unsynced(self) -> None:
        """A failed fsync, as Linux has it: the pages count as clean. They read back, and no later sync writes them."""
        self.unsynced.clear()

    def sync_partly(self, chance: random.Random) -> None:
        """A failed fsync that had written some sectors before it failed."""
        self.durable = self.after_power_cut(chance)
        self.forget_unsynced()

    def settle(self, content: bytearray) -> None:
        """The file after a restart of the machine: nothing is in a cache."""
        self.durable = content
        self.visible = bytearray(content)
        self.unsynced = []

    def damage(self, position: int, data: bytes) -> None:
        """Rot: the bytes change wherever they are held, also in the cache, so that a later sync does not heal them."""
        end = position + len(data)
        assert 0 <= position <= end <= len(self.visible), "rot does not make a file longer"
        self.visible[position:end] = data
        reach = min(end, len(self.durable))
        if reach > position:
            self.durable[position:reach] = data[: reach - position]
        if self.unsynced:
            # Over what is still to be synced, and over the holes in it, the rot has to come last.
            self.unsynced.append((position, data))

    def cut(self, size: int) -> None:
        """Rot: the end of the file is gone, on the medium and in the cache."""
        del self.visible[size:]
        del self.durable[size:]
        kept: list[Edit] = []
        for position, data in self.unsynced:
            if data is None:
                kept.append((min(position, size), None))
            elif position < size:
                kept.append((position, data[: size - position]))
        self.unsynced = kept

    def after_power_cut(self, chance: random.Random) -> bytearray:
        """One of the contents that a power cut may leave.

        Each sector holds the durable bytes plus some first part of the unsynced edits that touched it: the cache
        holds one version of a sector at a time, so a later edit brings the earlier ones of that sector along. Different
        sectors are independent, which is how writes tear and overtake each other.
        """
        if not self.unsynced:
            return bytearray(self.durable)
        return _PowerCut(self.durable, self.unsynced, chance).content()


class _PowerCut:
    """Picks one outcome: a version for each sector, which is how many of its edits it has, and a size of the file."""

    def __init__(self, durable: bytearray, edits: list[Edit], chance: random.Random) -> None:
        self._durable = durable
        self._edits = edits
        self._chance = chance
        self._sizes = [len(durable)]
        for edit in edits:
            self._sizes.append(_size_after(self._sizes[-1], edit))
        self._history = _sector_history(edits, self._sizes)

    def content(self) -> bytearray:
        fates = (self._none, self._all, self._in_order, self._in_order, self._some, self._some, self._scattered)
        versions, size = self._chance.choice(fates)()
        content = self._durable.ljust(max(self._sizes), b"\0")
        for sector, version in versions.items():
            for index in self._history[sector][:version]:
                _apply_to_sector(content, sector, self._edits[index])
        self._spoil(content)
        del content[size:]
        return content

    def _none(self) -> tuple[dict[int, int], int]:
        # Sometimes the size gets to the medium without the data: a file of zeros.
        return {}, self._sizes[0] if self._chance.random() < 0.75 else self._chance.choice(self._sizes)

    def _all(self) -> tuple[dict[int, int], int]:
        return {sector: len(touched) for sector, touched in self._history.items()}, self._sizes[-1]

    def _in_order(self) -> tuple[dict[int, int], int]:
        """The first edits are there, the next is torn, the rest never happened."""
        torn = self._chance.randrange(len(self._edits))
        versions: dict[int, int] = {}
        for sector, touched in self._history.items():
            whole = sum(1 for index in touched if index < torn)
            reached = whole < len(touched) and touched[whole] == torn and self._chance.random() < 0.5
            versions[sector] = whole + reached
        return versions, self._sizes[torn + self._chance.randrange(2)]

    def _some(self) -> tuple[dict[int, int], int]:
        """Each edit is there or not, the later ones regardless of the earlier ones."""
        kept = [self._chance.random() < 0.5 for _ in self._edits]
        versions: dict[int, int] = {}
        for sector, touched in self._history.items():
            versions[sector] = max((count for count, index in enumerate(touched, 1) if kept[index]), default=0)
        return versions, self._chance.choice(self._sizes)

    def _scattered(self) -> tuple[dict[int, int], int]:
        """Each sector goes its own way."""
        versions = {sector: self._chance.randrange(len(touched) + 1) for sector, touched in self._history.items()}
        return versions, self._chance.choice(self._sizes)

    def _spoil(self, content: bytearray) -> None:
        """Sectors that were never synced may hold whatever the medium held before. Those that were, never do."""
        if self._chance.random() >= _GARBAGE_FILE_CHANCE:
            return
        for sector in self._history:
            low = sector * SECTOR_BYTES
            if low >= len(self._durable) and self._chance.random() < _GARBAGE_SECTOR_CHANCE:
                high = min(low + SECTOR_BYTES, len(content))
                content[low:high] = self._chance.randbytes(high - low)


def _sector_history(edits: list[Edit], sizes: list[int]) -> dict[int, list[int]]:
    """For each sector, in order of position, the indexes of the edits that touch it."""
    history: dict[int, list[int]] = {}
    for index, (position, data) in enumerate(edits):
        # A truncation touches all it cuts off: what is written there later must not bring the old bytes back.
        end = position + len(data) if data is not None else max(sizes[: index + 1])
        for sector in range(position // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            history.setdefault(sector, []).append(index)
    return dict(sorted(history.items()))


def _size_after(size: int, edit: Edit) -> int:
    position, data = edit
    return position if data is None else max(size, position + len(data))


def _apply(content: bytearray, edit: Edit) -> None:
    position, data = edit
    if position > len(content):
        content.extend(bytes(position - len(content)))
    if data is None:
        del content[position:]
    else:
        content[position : position + len(data)] = data


def _apply_to_sector(content: bytearray, sector: int, edit: Edit) -> None:
    position, data = edit
    low = max(position, sector * SECTOR_BYTES)
    high = min((sector + 1) * SECTOR_BYTES, len(content))
    if data is None:
        if low < high:
            content[low:high] = bytes(high - low)
        return
    high = min(high, position + len(data))
    content[low:high] = data[low - position : high - position]
