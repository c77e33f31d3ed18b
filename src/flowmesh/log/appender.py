"""The one writer of a log: seals batches into blocks, writes them, syncs, rolls, trims. Plain blocking code, one owner.

Whoever calls this owns the log and calls it from one thread. Readers take `view` and need nothing else.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Sequence
from typing import NoReturn

from flowmesh.base.errors import Closed, DiskFull, FlowMeshError, StorageFailed
from flowmesh.format import block as blocks
from flowmesh.format import names
from flowmesh.format import segment as segment_format
from flowmesh.format.batch import Batch
from flowmesh.format.chain import ChainIdentity
from flowmesh.log import trim
from flowmesh.log.findings import Damage, Note
from flowmesh.log.index import SparseIndex
from flowmesh.log.opening import Survey, write_index, write_mark
from flowmesh.log.options import LogOptions
from flowmesh.log.retention import Retention
from flowmesh.log.sealing import Ahead, Appended, SealedRun, seal
from flowmesh.log.segment import Segment, Source, empty_segment
from flowmesh.log.tail import TailCache
from flowmesh.log.view import LogView
from flowmesh.ports.clock import Clock
from flowmesh.ports.disk import Disk, File, Lock

_OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT)


class Appender:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        options: LogOptions,
        clock: Clock,
        found: Survey,
        active: Segment,
        file: File,
        mark: File,
        lock: Lock,
    ) -> None:
        self.directory = directory
        self.options = options
        self.notes: tuple[Note, ...] = found.notes
        self.holds: dict[str, int] = {}
        """Offsets that retention must keep, by who asked for it."""
        self._disk = disk
        self._clock = clock
        self._lock = lock
        self._chain: ChainIdentity = found.chain
        self._damage: tuple[Damage, ...] = found.damage
        self._closed = found.closed
        self._start_offset = found.floor.start_offset
        self._active = active
        """All that was written, synced or not."""
        self._file = file
        self._mark = mark
        self._recent: deque[Source] = active.source.recent
        self._index = active.source.index(active)
        self._index_persisted = active.end_position
        self._tail = TailCache(options.tail_cache_bytes)
        self._failure: FlowMeshError | None = None
        self._dirty = False
        self._ahead: Ahead | None = None
        self._must_roll = False
        """A roll ran out of space. What it left may already say where this segment ends, so no block may follow."""
        self._publish()

    # --- what readers see ---------------------------------------------------------------------------------------

    def _publish(self) -> None:
        """Lets readers see everything that was written; called only when all of it is durable."""
        self.view = LogView(
            self._chain, self._closed, self._active, self._start_offset, self._tail.view(), self._damage
        )

    @property
    def written_end(self) -> int:
        return self._active.end_offset

    @property
    def dirty(self) -> bool:
        """Whether something was written that no sync has covered yet."""
        return self._dirty

    @property
    def failure(self) -> FlowMeshError | None:
        """Why this log takes no appends any more, or None."""
        return self._failure

    # --- writing ------------------------------------------------------------------------------------------------

    def write(self, group: Sequence[Batch]) -> list[Appended | FlowMeshError]:
        """Writes batches one behind the other, in as few writes as there are segments; says for each where it went.

        What comes back is written, not durable: `sync` is what an acknowledgement waits for. A batch that could not be
        written has its error in its place, and so have all after it.
        """
        results: list[Appended | FlowMeshError] = []
        try:
            self._require_open()
            self._require_space(sum(batch.size + blocks.OVERHEAD for batch in group))
            now = self._now()
            while len(results) < len(group):
                if self._is_full(group[len(results)], now):
                    self._roll(now)
                results += self._write_run(group[len(results) :], now)
        except FlowMeshError as error:
            results += [error] * (len(group) - len(results))
        return results

    def _write_run(self, group: Sequence[Batch], now: int) -> list[Appended]:
        """As many batches as the active segment takes, in one write."""
        ahead, self._ahead = self._ahead, None
        run = (
            ahead.run
            if ahead is not None and ahead.fits(self._active, self.options, group)
            else self._sealed(group, now)
        )
        try:
            self._file.write(self._active.end_position, run.entries)
        except OSError as error:
            self._take_back(error)
        self._dirty = True
        note, add, header = self._index.note, self._tail.add, self._active.header
        for entry, (base_offset, *_), position, time in zip(*run[:4], strict=True):
            note(base_offset, position, time)
            add(header, base_offset, position, entry)
        self._active = run.after._replace(index_rows=len(self._index))
        return run.appended

    def prepare(self, group: Sequence[Batch]) -> None:
        """Seals what the next `write` will bring first, so that its hashing is done beside a sync of what was written.

        Nothing changes that anybody sees. Should a roll or other batches come before, they are sealed anew.
        """
        now = self._now()
        if group and self._failure is None and not self._is_full(group[0], now):
            self._ahead = Ahead(self._active, self.options, group, self._sealed(group, now))

    def _sealed(self, group: Sequence[Batch], now: int) -> SealedRun:
        return seal(self._active, self.options, group, now)

    def _now(self) -> int:
        """Time in a log never goes back, nor behind what was sealed ahead."""
        last = self._active if self._ahead is None else self._ahead.run.after
        return max(self._clock.wall_ns(), last.last_timestamp_ns)

    def _take_back(self, error: OSError) -> NoReturn:
        """A write that ran out of space put nothing acknowledged at risk: cut what it left, and go on later."""
        if error.errno not in _OUT_OF_SPACE:
            raise self._fail("write", error)
        try:
            self._file.truncate(self._active.end_position)
        except OSError as second:
            raise self._fail("write", second)
        # The cut is a change like any other: before the refusal is final, and before a roll, it has to be synced.
        self._dirty = True
        raise self._disk_full(0) from error

    # --- syncing ------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Makes everything written durable, and shows it to readers. A failure is final: see `docs/decisions`."""
        self._require_open()
        if not self._dirty:
            return
        self.sync_file()
        self.complete_sync()

    def sync_file(self) -> None:
        """The blocking half of `sync`: touches no state but the failure, so another thread may run it for the owner."""
        try:
            self._file.sync()
        except OSError as error:
            raise self._fail("fsync", error)

    def complete_sync(self) -> None:
        """The other half: what was written before `sync_file` began is durable now. Nothing may be written between."""
        self._dirty = False
        try:
            write_mark(self._mark, self._active, clean=False)
            if self._active.end_position - self._index_persisted >= self.options.index_persist_bytes:
                self._persist_index()
        except OSError as error:
            raise self._fail("write", error)
        self._publish()

    def _persist_index(self) -> None:
        try:
            write_index(self._disk, self.directory, self._active, self._index)
        except OSError as error:
            if error.errno not in _OUT_OF_SPACE:
                raise
        self._index_persisted = self._active.end_position

    # --- rolling ------------------------------------------------------------------------------------------------

    def _is_full(self, batch: Batch, now: int) -> bool:
        active, options = self._active, self.options
        if not active.blocks:
            return False
        return (
            self._must_roll
            or active.end_position + batch.size + blocks.OVERHEAD > options.segment_bytes
            or active.records + batch.header.count > options.segment_records
            or now - active.header.created_ns >= options.segment_age_ns
        )

    def roll(self) -> None:
        """Closes the active segment and begins the next one, so that retention may take the old one."""
        self._require_open()
        if self._active.blocks:
            self._roll(max(self._clock.wall_ns(), self._active.last_timestamp_ns))
            self._publish()

    def _roll(self, now: int) -> None:
        """The old segment is durable before the new one exists, and the new one before it takes a block."""
        self.sync()
        old = self._active
        path = f"{self.directory}/{names.segment_name(old.number + 1)}"
        try:
            if self._must_roll and self._disk.exists(path):
                # An earlier attempt ended in an fsync that failed. What that gave up, no later fsync brings back.
                self._disk.remove(path)
            file, active = create_segment(
                self._disk, self.directory, old.number + 1, self._chain, self._recent,
                old.header.hash, old.last_block_hash, old.end_offset, now,
            )  # fmt: skip
        except OSError as error:
            if error.errno in _OUT_OF_SPACE:
                self._must_roll = True
                raise self._disk_full(0) from error
            raise self._fail("write", error)
        self._must_roll = False
        try:
            self._persist_index()
            # Before the first block: who reads beside this one would take an older mark for "nothing is known".
            write_mark(self._mark, active, clean=False)
        except OSError as error:
            raise self._fail("write", error)
        old.source.unpin()
        self._file.close()
        self._closed = (*self._closed, old)
        self._file, self._active, self._index = file, active, active.source.index(active)
        self._index_persisted = active.end_position

    # --- trimming -----------------------------------------------------------------------------------------------

    def trim(self, retention: Retention) -> int:
        """Removes what retention allows and no hold forbids, in whole segments; returns how many went."""
        self.sync()
        doomed = trim.doomed(self._closed, self._active, retention, self.holds, self._clock.wall_ns())
        if not doomed:
            return 0
        kept = self._closed[doomed:]
        first = kept[0] if kept else self._active
        try:
            self._write_floor(first, self._closed[:doomed])
            gone, self._closed, self._start_offset = self._closed[:doomed], kept, first.base_offset
            self._damage = tuple(damage for damage in self._damage if damage.segment >= first.number)
            self._publish()
            trim.remove(self._disk, self.directory, gone)
        except OSError as error:
            if error.errno in _OUT_OF_SPACE:
                raise self._disk_full(0) from error
            raise self._fail("write", error)
        return doomed

    def _write_floor(self, first: Segment, doomed: Sequence[Segment]) -> None:
        """On a disk that is full to the last byte, the indexes of what is to go make room: they are only a hint."""
        try:
            trim.write_floor(self._disk, self.directory, first)
        except OSError as error:
            if error.errno not in _OUT_OF_SPACE:
                raise
            trim.remove_indexes(self._disk, self.directory, doomed)
            trim.write_floor(self._disk, self.directory, first)

    # --- ending -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Syncs, writes the index and a clean mark, and lets go. A log that failed is left as it is."""
        if isinstance(self._failure, Closed):
            return
        try:
            if self._failure is None:
                self.sync()
                self._persist_index()
                write_mark(self._mark, self._active, clean=True)
                self._mark.sync()
        except OSError as error:
            raise self._fail("write", error)
        finally:
            self._failure = Closed(f"the log in {self.directory} is closed.")
            self._file.close()
            self._mark.close()
            self._lock.release()

    def poison(self, reason: str) -> None:
        """Takes no more appends. For whoever drives this log and met something that it did not foresee."""
        if self._failure is None:
            self._failure = StorageFailed(
                f"appending to {self.directory} was given up: {reason}.",
                hint="Open the log again to learn whether the last appends were kept; durable data can still be read.",
            )

    def _require_open(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _require_space(self, size: int) -> None:
        try:
            free = self._disk.free_bytes(self.directory)
        except OSError as error:
            raise self._fail("asking for free space", error)
        if free - size < self.options.disk_reserve_bytes:
            raise self._disk_full(free)

    def _disk_full(self, free: int) -> DiskFull:
        return DiskFull(
            f"the disk of {self.directory} has {free} bytes free; {self.options.disk_reserve_bytes} are kept back.",
            hint="Nothing was written. Free space or shorten retention; appends then go on by themselves.",
        )

    def _fail(self, operation: str, error: OSError) -> StorageFailed:
        """Poisons the log: what is on the medium is not known any more, and only a new opening can find out."""
        failure = StorageFailed(
            f"{operation} failed in {self.directory}: {error.strerror or error} (errno {error.errno}).",
            hint="Open the log again to learn whether the last appends were kept; durable data can still be read.",
        )
        failure.__cause__ = error
        self._failure = failure
        return failure


def create_segment(
    disk: Disk,
    directory: str,
    number: int,
    chain: ChainIdentity,
    recent: deque[Source],
    previous_segment_hash: bytes,
    previous_block_hash: bytes,
    base_offset: int,
    now: int,
) -> tuple[File, Segment]:
    """A new segment file whose header and name are on the medium."""
    path = f"{directory}/{names.segment_name(number)}"
    data = segment_format.encode(chain.hash, previous_segment_hash, previous_block_hash, base_offset, now)
    file = disk.open(path, write=True, create=True)
    file.truncate(0)
    file.write(0, [data])
    file.sync()
    disk.sync_directory(directory)
    source = Source(disk, path, recent, SparseIndex())
    return file, empty_segment(number, segment_format.decode(data), source)
