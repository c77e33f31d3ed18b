"""The streams of a node: their directories made, opened, altered and removed. Called by the owner of the logs alone."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from flowmesh.base import limits
from flowmesh.base.durability import Durability
from flowmesh.base.errors import BadRequest, CorruptData, DiskFull, FlowMeshError, StorageFailed
from flowmesh.catalog.model import Stream, StreamSettings
from flowmesh.format.chain import checked
from flowmesh.log import directory as files
from flowmesh.log.open_log import open_log
from flowmesh.log.options import LogOptions
from flowmesh.log.retention import Retention
from flowmesh.node import paths
from flowmesh.node.partition import StreamPartition
from flowmesh.node.statistics import CommitStatistics
from flowmesh.node.trees import remove_tree
from flowmesh.ports.clock import Clock
from flowmesh.ports.disk import Disk
from flowmesh.ports.entropy import Entropy

_MILLISECOND_NS = 1_000_000
_GROUPS = "groups"
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT)


class OpenStream:
    """A stream and its partitions, all of them open."""

    __slots__ = ("next_partition", "partitions", "stream")

    def __init__(self, stream: Stream, partitions: tuple[StreamPartition, ...]) -> None:
        self.stream = stream
        self.partitions = partitions
        self.next_partition = 0
        """Round robin for records without a key."""

    def partition(self, number: int) -> StreamPartition:
        if not 0 <= number < len(self.partitions):
            raise BadRequest(
                f"stream {self.stream.path!r} has partitions 0 to {len(self.partitions) - 1}, not {number}.",
                field="partition",
            )
        return self.partitions[number]

    def alter(self, stream: Stream) -> None:
        self.stream = stream
        for partition in self.partitions:
            appender = partition.appender
            appender.options = options_of(stream.settings, appender.options.disk_reserve_bytes)

    def hold(self, held: Mapping[int, int]) -> None:
        """What groups keep from retention from now on: an offset for each partition that is held at all."""
        for number, partition in enumerate(self.partitions):
            holds = partition.appender.holds
            holds.pop(_GROUPS, None)
            if number in held:
                holds[_GROUPS] = held[number]

    def take_turn(self) -> int:
        turn = self.next_partition
        self.next_partition = (turn + 1) % len(self.partitions)
        return turn


def checked_settings(settings: StreamSettings) -> StreamSettings:
    """The settings if a stream can be kept that way."""
    if not 1 <= settings.partitions <= limits.PARTITIONS_MAX:
        raise BadRequest(
            f"a stream has 1 to {limits.PARTITIONS_MAX} partitions, not {settings.partitions}.", field="partitions"
        )
    for name in ("retention_age_ms", "retention_bytes"):
        value = getattr(settings, name)
        if value is not None and not 0 <= value < 2**62:
            raise BadRequest(f"{name} is {value}; it goes from 0 to {2**62}.", field=name)
    options_of(settings)
    return settings


def options_of(settings: StreamSettings, disk_reserve_bytes: int = limits.DISK_RESERVE_BYTES_DEFAULT) -> LogOptions:
    age_ms = settings.segment_age_ms
    return LogOptions(
        segment_bytes=settings.segment_bytes or limits.SEGMENT_BYTES_DEFAULT,
        segment_age_ns=limits.SEGMENT_AGE_DEFAULT_NS if age_ms is None else age_ms * _MILLISECOND_NS,
        tail_cache_bytes=limits.TAIL_CACHE_BYTES_DEFAULT // max(settings.partitions, 1),
        disk_reserve_bytes=disk_reserve_bytes,
        durability=Durability.parse(settings.durability),
    )


def retention_of(settings: StreamSettings) -> Retention:
    age_ms = settings.retention_age_ms
    return Retention(None if age_ms is None else age_ms * _MILLISECOND_NS, settings.retention_bytes)


def storage_failed(what: str, error: OSError) -> FlowMeshError:
    """What the operating system refused, in words for users."""
    if error.errno in OUT_OF_SPACE:
        return DiskFull(f"{what}: the disk is full.", hint="Free space, or delete a stream; then try again.")
    return StorageFailed(f"{what}: {error.strerror or error}.", hint="The node's log and its disk tell more.")


class StreamStore:
    """The `streams` directory."""

    def __init__(
        self, disk: Disk, clock: Clock, entropy: Entropy, data_directory: str, disk_reserve_bytes: int
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._entropy = entropy
        self._root = data_directory
        self._disk_reserve_bytes = disk_reserve_bytes
        self._statistics = CommitStatistics()

    @property
    def statistics(self) -> CommitStatistics:
        """One for all partitions, so that it does not shrink when a stream is deleted."""
        return self._statistics

    def require_space(self) -> None:
        """A new stream needs room as an append does; deleting one, and all other changes, may use the reserve."""
        free = self._disk.free_bytes(self._root)
        if free < self._disk_reserve_bytes:
            raise DiskFull(
                f"the disk has {free} bytes free; {self._disk_reserve_bytes} are kept back.",
                hint="Nothing was made. Free space, or delete a stream.",
            )

    def make(self, path: str, settings: StreamSettings) -> None:
        """All partitions of a stream, empty and durable, before the catalog says that it is there."""
        directory = self._directory(path)
        remove_tree(self._disk, directory)  # left by a creation that the catalog never heard of
        try:
            self._make_partitions(path, directory, settings)
        except (FlowMeshError, OSError):
            self.unmake(path)
            raise

    def unmake(self, path: str) -> None:
        """Takes back what was made for a stream that is not to be, as well as it can be done."""
        with suppress(OSError):
            remove_tree(self._disk, self._directory(path))

    def _make_partitions(self, path: str, directory: str, settings: StreamSettings) -> None:
        for number in range(settings.partitions):
            name = paths.chain_name(paths.STREAMS, path, number)
            identity = checked(self._entropy.random_bytes(limits.CHAIN_LOCAL_ID_BYTES), name, self._clock.wall_ns())
            made = open_log(
                self._disk,
                f"{directory}/{number}",
                self._clock,
                options_of(settings, self._disk_reserve_bytes),
                create=identity,
            )
            made.close()

    def open(self, stream: Stream) -> OpenStream:
        try:
            return self._open(stream)
        except OSError as error:
            raise storage_failed(f"stream {stream.path!r} could not be opened", error)

    def _open(self, stream: Stream) -> OpenStream:
        directory = self._directory(stream.path)
        self.describe(stream)
        options = options_of(stream.settings, self._disk_reserve_bytes)
        partitions: list[StreamPartition] = []
        try:
            for number in range(stream.settings.partitions):
                partition = self._open_partition(f"{directory}/{number}", options)
                partitions.append(partition)
        except (FlowMeshError, OSError):
            for partition in partitions:
                with suppress(FlowMeshError, OSError):
                    partition.close()
            raise
        return OpenStream(stream, tuple(partitions))

    def _open_partition(self, directory: str, options: LogOptions) -> StreamPartition:
        appender = open_log(self._disk, directory, self._clock, options)
        try:
            return StreamPartition(self._disk, self._clock, appender, self._statistics)
        except (FlowMeshError, OSError):
            with suppress(FlowMeshError, OSError):
                appender.close()
            raise

    def describe(self, stream: Stream) -> None:
        """For people and tools that look at a directory and ask what it is. The catalog is the truth."""
        directory = self._directory(stream.path)
        if not self._disk.exists(directory):
            raise CorruptData(
                f"the data of stream {stream.path!r} is missing: {directory} is not there.",
                hint="Restore the directory from a copy, or delete the stream.",
            )
        body = {"format": "flowmesh.resource", "version": 1, "kind": "stream", **msgspec.to_builtins(stream)}
        data = msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"
        if files.read_file(self._disk, directory, paths.RESOURCE_FILE) != data:
            try:
                files.write_file(self._disk, directory, paths.RESOURCE_FILE, data)
            except OSError as error:
                if error.errno not in OUT_OF_SPACE:  # a full disk must not keep a stream from being read
                    raise

    def remove(self, stream: Stream, *, replaced: bool) -> None:
        """Takes a deleted stream off the disk. It is moved aside first, so that its name is free at once. `replaced`:
        its directory is that of a later one of the same name by now."""
        directory = self._directory(stream.path)
        doomed = f"{self._root}/{paths.doomed_directory(paths.STREAMS, stream.path, stream.id)}"
        if not replaced and self._disk.exists(directory) and not self._is_of_another(directory, stream.id):
            self._disk.rename(directory, doomed)
            self._disk.sync_directory(f"{self._root}/{paths.STREAMS}")
        remove_tree(self._disk, doomed)
        # Before the catalog forgets it: a power cut must not bring back what nobody would look for.
        self._disk.sync_directory(f"{self._root}/{paths.STREAMS}")

    def sweep(self) -> None:
        """At a start: whatever waits to be removed. A name that came back with a crash is in no catalog any more."""
        root = f"{self._root}/{paths.STREAMS}"
        for name in self._disk.names(root):
            if paths.is_doomed(name):
                with suppress(OSError):
                    remove_tree(self._disk, f"{root}/{name}")

    def _is_of_another(self, directory: str, stream_id: int) -> bool:
        """Whether it says so itself. A disk that was full when the stream was made kept it from saying anything."""
        data = files.read_file(self._disk, directory, paths.RESOURCE_FILE)
        try:
            return data is not None and msgspec.json.decode(data).get("id") != stream_id
        except (msgspec.MsgspecError, AttributeError):
            return True

    def _directory(self, path: str) -> str:
        return f"{self._root}/{paths.resource_directory(paths.STREAMS, path)}"
