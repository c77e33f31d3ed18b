"""The two ways into a log: `open_log` for its one owner, `read_log` for anybody who only looks."""

from __future__ import annotations

from collections import deque

from flowmesh.base.errors import AlreadyOpen, CorruptData, NotFound
from flowmesh.format import chain as chain_format
from flowmesh.format import names
from flowmesh.format.chain import ChainIdentity
from flowmesh.format.segment import NO_HASH
from flowmesh.log import directory as files
from flowmesh.log.appender import Appender, create_segment
from flowmesh.log.opening import Survey, require_appendable, settle, survey, write_mark
from flowmesh.log.options import LogOptions
from flowmesh.log.segment import Segment
from flowmesh.log.surveyor import START
from flowmesh.log.tail import NO_TAIL
from flowmesh.log.view import LogView
from flowmesh.ports.clock import Clock
from flowmesh.ports.disk import Disk, File, Lock

_LOOKS_MAX = 5


def open_log(
    disk: Disk, directory: str, clock: Clock, options: LogOptions | None = None, *, create: ChainIdentity | None = None
) -> Appender:
    """Recovers the log in `directory` and makes the caller its owner. `create` begins one where there is none."""
    options = options or LogOptions()
    if create is not None:
        files.make_directory(disk, directory)
    elif not disk.exists(directory):
        raise NotFound(f"there is no log in {directory}.", field="directory")
    try:
        lock = disk.lock(f"{directory}/{names.LOCK}")
    except BlockingIOError as error:
        raise AlreadyOpen(
            f"the log in {directory} is open in another process.", hint="Stop that process, or read without owning."
        ) from error
    try:
        return _own(disk, directory, clock, options, create, lock)
    except BaseException:
        lock.release()
        raise


def _own(
    disk: Disk, directory: str, clock: Clock, options: LogOptions, create: ChainIdentity | None, lock: Lock
) -> Appender:
    found = survey(disk, directory, owner=True)
    if found is None:
        if create is None:
            raise NotFound(f"there is no log in {directory}.", field="directory")
        found = Survey(create, START, (), None, 0, 0, None, False, (), None, (), (), ())
    require_appendable(found)
    if found.active is None and not found.closed:
        # Also when there is a chain file: an earlier start may have been cut short before its name was on the medium.
        files.write_file(disk, directory, names.CHAIN, chain_format.encode(found.chain))
    file = settle(disk, directory, found)
    active: Segment | None = found.active
    if active is None or file is None:
        if found.closed:
            before = found.closed[-1]
            links = (before.header.hash, before.last_block_hash, before.end_offset)
            number = before.number + 1
        else:
            links, number = (NO_HASH, NO_HASH, 0), 1
        now = max(clock.wall_ns(), found.closed[-1].last_timestamp_ns if found.closed else 0)
        file, active = create_segment(disk, directory, number, found.chain, deque(), *links, now)
    mark = _open_mark(disk, directory, active)
    return Appender(disk, directory, options, clock, found, active, file, mark, lock)


def _open_mark(disk: Disk, directory: str, active: Segment) -> File:
    """The mark of what was just found durable. It keeps its size from now on, so writing it never needs space."""
    file = disk.open(f"{directory}/{names.MARK}", write=True, create=True)
    write_mark(file, active, clean=False)
    return file


def look(disk: Disk, directory: str) -> Survey:
    """What is in `directory`, without owning it; a writer may be at work there."""
    for attempt in range(_LOOKS_MAX):
        floor = files.read_file(disk, directory, names.FLOOR)
        try:
            found = survey(disk, directory, owner=False)
        except FileNotFoundError:
            if not disk.exists(directory):
                break
            if attempt == _LOOKS_MAX - 1:
                raise
            continue  # a segment was trimmed between its name and its content
        if found is None:
            break
        moved = bool(found.damage) and files.read_file(disk, directory, names.FLOOR) != floor
        if moved and attempt < _LOOKS_MAX - 1:
            continue  # what seems lost may have been trimmed between the names and the floor
        return found
    raise NotFound(f"there is no log in {directory}.", field="directory", hint="Create one with 'flowmesh log append'.")


def read_log(disk: Disk, directory: str) -> LogView:
    """A view of what is known to be durable in `directory`."""
    return view_of(look(disk, directory))


def view_of(found: Survey) -> LogView:
    segments = (*found.closed, found.active) if found.active is not None else found.closed
    if not segments:
        if found.read_only is not None:
            raise found.read_only.error()
        if found.damage:
            raise CorruptData("the log has no segment that can be read.")
        raise NotFound("the log is only just being created; there is nothing in it yet.", hint="Look again later.")
    return LogView(found.chain, segments[:-1], segments[-1], found.floor.start_offset, NO_TAIL, found.damage)
