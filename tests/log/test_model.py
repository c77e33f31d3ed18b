"""A log on a simulated disk against a plain list: whatever is done in whatever order, a reader gets what the list says.

The list is the whole model. It knows records and batches; of blocks, indexes and caches it knows nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from flowmesh.base.errors import OffsetOutOfRange
from flowmesh.format.chain import ChainIdentity
from flowmesh.format.columns import Header, Record, decode, encode
from flowmesh.log.appender import Appender
from flowmesh.log.open_log import open_log, read_log
from flowmesh.log.options import LogOptions
from flowmesh.log.retention import Retention
from flowmesh.log.scan import Block
from flowmesh.log.sealing import Appended
from flowmesh.log.verify import verify_log
from flowmesh.log.view import Cursor, LogView
from flowmesh.sim.clock import START_WALL_NS, SimClock
from flowmesh.sim.disk import CrashMode, SimDisk

DIRECTORY = "/log"
IDENTITY = ChainIdentity(b"modelled", "modelled", START_WALL_NS)
OPTIONS = LogOptions(segment_records=7, index_persist_bytes=500, tail_cache_bytes=700, disk_reserve_bytes=0)
MODES: tuple[CrashMode, ...] = ("random", "lose_all", "keep_all", "keep_names_lose_data")

HEADERS = st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=3)), max_size=2).map(tuple)
TIMES = st.integers(START_WALL_NS - 50, START_WALL_NS + 50)


class Sending(NamedTuple):
    """One record before it has a place."""

    value: bytes | None
    key: bytes | None
    headers: tuple[Header, ...]
    time_ns: int


SENDING = st.builds(
    Sending, st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=5), HEADERS, TIMES
)  # fmt: skip
BATCHES = st.lists(st.tuples(st.lists(SENDING, min_size=1, max_size=4), st.booleans()), min_size=1, max_size=5)


def records_of(blocks: list[Block]) -> list[Record]:
    return [record for block in blocks for record in decode(block.batch).records()]


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = SimDisk(1)
        self.clock = SimClock(tick_ns=3)
        self.records: list[Record] = []
        """Every record ever kept; its place in the list is its offset."""
        self.batch_ends: list[int] = [0]
        self.durable_end = 0
        self.start_offset = 0
        self.cursor: tuple[int, Cursor] | None = None
        self.log: Appender
        self.open()

    def open(self) -> None:
        self.log = open_log(self.disk, DIRECTORY, self.clock, OPTIONS, create=IDENTITY)
        self.cursor = None

    @property
    def view(self) -> LogView:
        return self.log.view

    # --- what is done

    @rule(batches=BATCHES)
    def write(self, batches: list[tuple[list[Sending], bool]]) -> None:
        group = []
        for sent, timed in batches:
            values, keys, headers, times = map(list, zip(*sent, strict=True))
            group.append(encode(values, keys=keys, headers=headers, times_ns=times if timed else None))
        results = self.log.write(group)
        for (sent, timed), result in zip(batches, results, strict=True):
            assert isinstance(result, Appended)
            assert result.base_offset == len(self.records)
            for row in sent:
                time_ns = row.time_ns if timed else result.timestamp_ns
                self.records.append(Record(len(self.records), time_ns, row.key, row.value, row.headers))
            assert result.end_offset == len(self.records)
            self.batch_ends.append(result.end_offset)
        # A roll inside the write has synced what came before it; the view says so and may not say too much.
        assert self.durable_end <= self.view.end_offset <= len(self.records)
        self.durable_end = self.view.end_offset

    @rule(times=st.lists(TIMES, min_size=1, max_size=5))
    def write_large(self, times: list[int]) -> None:
        """So large that each second or third block has a row in the index."""
        self.write([([Sending(b"%d" % time_ns * 1700, None, (), time_ns)], True) for time_ns in times])

    @rule()
    def sync(self) -> None:
        self.log.sync()
        self.durable_end = len(self.records)

    @rule()
    def roll(self) -> None:
        self.log.roll()
        self.durable_end = self.view.end_offset
        if not self.log.dirty:
            assert self.durable_end == len(self.records)

    @rule(size_bytes=st.sampled_from((0, 600, 1500)), hold=st.none() | st.integers(0, 60))
    def trim(self, size_bytes: int, hold: int | None) -> None:
        self.log.holds = {} if hold is None else {"hold": hold}
        self.log.sync()
        self.durable_end = len(self.records)
        segments = [(segment.end_offset, segment.end_position) for segment in self.view.segments]
        expected = self.start_offset
        while len(segments) > 1:
            end_offset, _ = segments[0]
            if sum(size for _, size in segments) <= size_bytes or (hold is not None and end_offset > hold):
                break
            expected = segments.pop(0)[0]
        self.log.trim(Retention(size_bytes=size_bytes))
        self.start_offset = expected

    @rule(ahead_ns=st.integers(0, 100))
    def time_passes(self, ahead_ns: int) -> None:
        self.clock.advance(ahead_ns)

    @rule()
    def close_and_open(self) -> None:
        self.log.close()
        self.durable_end = len(self.records)
        self.open()
        self.nothing_changed()

    @rule(mode=st.sampled_from(MODES))
    def crash_and_open(self, mode: CrashMode) -> None:
        self.disk = self.disk.crash(mode)
        self.open()
        end = self.view.end_offset
        assert end in self.batch_ends, "half a batch was kept"
        assert end >= (len(self.records) if mode == "keep_all" else self.durable_end)
        del self.records[end:]
        self.batch_ends = [offset for offset in self.batch_ends if offset <= end]
        self.durable_end = end
        self.nothing_changed()

    def nothing_changed(self) -> None:
        assert not self.view.damage
        assert self.log.written_end == self.view.end_offset == len(self.records)
        assert records_of(list(self.view.blocks())) == self.records[self.start_offset :]

    # --- what readers get

    @rule(data=st.data(), bytes_max=st.sampled_from((1, 400, 100_000)))
    def read_by_offset(self, data: st.DataObject, bytes_max: int) -> None:
        offset = data.draw(st.integers(self.start_offset, self.durable_end))
        chunk = self.view.read(offset, bytes_max)
        self.is_run(chunk.blocks, offset, chunk.next_offset)
        hot = self.view.read_tail(offset, bytes_max)
        if hot is not None:
            self.is_run(hot.blocks, offset, hot.next_offset)
        if chunk.cursor is not None:
            self.cursor = (chunk.next_offset, chunk.cursor)

    @precondition(lambda self: self.cursor is not None and self.cursor[0] >= self.start_offset)
    @rule()
    def read_on_by_cursor(self) -> None:
        assert self.cursor is not None
        offset, cursor = self.cursor
        chunk = self.view.read(offset, 300, cursor)
        self.is_run(chunk.blocks, offset, chunk.next_offset)
        self.cursor = (chunk.next_offset, chunk.cursor) if chunk.cursor is not None else None

    @rule(times=st.lists(TIMES, min_size=3, max_size=9))
    def find_times(self, times: list[int]) -> None:
        kept = self.records[self.start_offset : self.durable_end]
        other = read_log(self.disk, DIRECTORY)
        for time_ns in times + [record.time_ns for record in kept[-9:]]:
            expected = next((record.offset for record in kept if record.time_ns >= time_ns), self.durable_end)
            assert self.view.offset_for_time(time_ns) == expected
            assert other.offset_for_time(time_ns) == expected

    @rule(distance=st.integers(1, 10))
    def read_outside(self, distance: int) -> None:
        for offset in (self.start_offset - distance, self.durable_end + distance):
            with pytest.raises(OffsetOutOfRange):
                self.view.read(offset)

    @rule()
    def read_beside_the_owner(self) -> None:
        other = read_log(self.disk, DIRECTORY)
        assert (other.start_offset, other.end_offset) == (self.start_offset, self.durable_end)
        assert records_of(list(other.blocks())) == self.records[self.start_offset : self.durable_end]

    @rule()
    def verify(self) -> None:
        report = verify_log(self.disk, DIRECTORY)
        assert report.sound, report.damage
        assert (report.start_offset, report.end_offset) == (self.start_offset, self.durable_end)
        assert report.records == self.durable_end - self.start_offset

    def is_run(self, blocks: list[Block], offset: int, next_offset: int) -> None:
        """Whole batches, the first of which holds `offset`, one behind the other."""
        if offset == self.durable_end:
            assert (blocks, next_offset) == ([], offset)
            return
        first, end = blocks[0].base_offset, blocks[-1].end_offset
        assert first <= offset < blocks[0].end_offset
        assert next_offset == end <= self.durable_end
        assert records_of(blocks) == self.records[first:end]

    @invariant()
    def the_view_shows_what_is_durable(self) -> None:
        assert (self.view.start_offset, self.view.end_offset) == (self.start_offset, self.durable_end)
        assert self.log.written_end == len(self.records)


def test_a_log_reads_like_a_list() -> None:
    run_state_machine_as_test(LogMachine, settings=settings(max_examples=60, stateful_step_count=30))


@pytest.mark.soak
def test_a_log_reads_like_a_list_for_long() -> None:
    run_state_machine_as_test(LogMachine, settings=settings(max_examples=2_000, stateful_step_count=80))
