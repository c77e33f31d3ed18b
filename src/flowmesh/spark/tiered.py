"""A stream with its archive, asked as one: it begins where the archive begins, and ends where the log does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from flowmesh.archive.cold import files_of
from flowmesh.archive.store import ArchiveFiles
from flowmesh.base.errors import FlowMeshError, NotFound
from flowmesh.spark.archive_group import told_locations
from flowmesh.spark.cold_tier import ColdPiece, ColdTier
from flowmesh.spark.errors import bad_option
from flowmesh.spark.location import Location, PartitionFacts, Range, SizedRange, StreamAsking, StreamFacts

AUTO, NONE = "auto", "none"


class ArchiveLookup:
    """Finds the archive of a stream. It travels to executors, for what the log drops while a task is under way."""

    def __init__(self, location: Location, archive: str, files: Callable[[str], ArchiveFiles] = files_of) -> None:
        self._location = location
        self._archive = archive
        self._files = files

    def tier(self) -> ColdTier | None:
        """As it is now; None where there is no archive."""
        place = self._told_place() if self._archive == AUTO else None if self._archive == NONE else self._archive
        return self._opened(place) if place is not None else None

    def fill(self, lost: Range) -> Sequence[ColdPiece]:
        tier = self.tier()
        return tier.fill(lost) if tier is not None else ()

    def _told_place(self) -> str | None:
        """What the group of an archive says on the node."""
        if self._location.node is None:
            return None
        places = told_locations(self._location.node, self._location.stream)
        if len(places) > 1:
            raise bad_option("archive", f"there are {len(places)} archives.", "Say which: its location, or 'none'.")
        return places[0] if places else None

    def _opened(self, place: str) -> ColdTier | None:
        try:
            return ColdTier.at(place, self._files)
        except NotFound:
            if self._archive == AUTO:
                return None  # it was set up, and nothing was archived yet
            raise bad_option("archive", f"there is no archive at {place}.") from None
        except (FlowMeshError, OSError) as error:
            hint = "Option 'archive' = 'none' reads the log alone."
            raise bad_option("archive", f"{place} cannot be read here: {error}", hint) from None


class TieredAsking:
    """In the place of the log's own asking. What the log still has is asked of the log."""

    def __init__(self, log: StreamAsking, lookup: ArchiveLookup, *, always: bool = False) -> None:
        self._log = log
        self._lookup = lookup
        self._always = always
        """Whether the archive is looked at, too, when the log has dropped nothing."""
        self._tier: ColdTier | None = None
        self._starts: tuple[int, ...] | None = None
        """Where the log began when the archive was last looked at: unless that moves, the archive need not be asked."""
        self._facts: StreamFacts | None = None

    @property
    def log_facts(self) -> StreamFacts:
        """What the log alone said when `facts` was last asked."""
        assert self._facts is not None, "facts come first"
        return self._facts

    def facts(self) -> StreamFacts:
        facts = self._facts = self._log.facts()
        starts = tuple(each.start for each in facts.partitions)
        if starts != self._starts and (any(starts) or self._always):
            self._tier, self._starts = self._lookup.tier(), starts
        if self._tier is None:
            return facts
        tier = self._tier
        return facts._replace(partitions=tuple(_widened(each, tier) for each in facts.partitions))

    @property
    def tier(self) -> ColdTier | None:
        return self._tier

    def fill(self, lost: Range) -> Sequence[ColdPiece]:
        return self._tier.fill(lost) if self._tier is not None else ()

    def find(self, moments: dict[int, int]) -> dict[int, int]:
        """A time is looked for in the archive where the log would say that it begins with it."""
        found = self._log.find(moments)
        starts = {each.partition: each.start for each in self.log_facts.partitions}
        for partition, moment in moments.items():
            if self._tier is not None and found[partition] <= starts.get(partition, -1):
                earlier = self._tier.find(partition, moment)
                found[partition] = min(found[partition], earlier) if earlier is not None else found[partition]
        return found

    def split(self, ranges: Sequence[Range], split_bytes: int) -> list[SizedRange]:
        """Also of what is archived: whoever limits a batch by bytes wants to know its size."""
        starts = {each.partition: each.start for each in self.log_facts.partitions}
        cold = [
            part
            for each in ranges
            for piece in self.fill(each._replace(end=min(each.end, starts.get(each.partition, 0))))
            for part in _evenly(piece, split_bytes)
        ]
        hot = [each._replace(start=max(each.start, starts.get(each.partition, 0))) for each in ranges]
        return [*cold, *self._log.split([each for each in hot if each.start < each.end], split_bytes)]

    def times(self, partition: int, offset: int) -> tuple[int, int, int]:
        starts = {each.partition: each.start for each in self.log_facts.partitions}
        for piece in self.fill(Range(partition, offset, min(offset + 1, starts.get(partition, 0)))):
            return piece.file.min_time_ns, piece.file.max_time_ns, piece.file.end_offset
        return self._log.times(partition, offset)

    def close(self) -> None:
        self._log.close()


def _evenly(piece: ColdPiece, split_bytes: int) -> Iterator[SizedRange]:
    """A file in parts of about one size, as if all its records were alike."""
    count = min(max(piece.size_bytes // split_bytes, 1), piece.end - piece.start)
    edges = [piece.start + (piece.end - piece.start) * number // count for number in range(count + 1)]
    for start, end in pairwise(edges):
        yield SizedRange(piece.partition, start, end, piece.size_bytes // count)


def _widened(log: PartitionFacts, tier: ColdTier) -> PartitionFacts:
    """Only where the two meet: what lies before a gap is not a part of one history."""
    start = tier.start(log.partition)
    if start is None or start >= log.start or tier.end(log.partition) < log.start:
        return log
    return log._replace(start=start)
