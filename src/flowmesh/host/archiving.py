"""The archive on a schedule: a child process of the node, one at a time, and a hold on what it has not come to yet."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase

import msgspec

from flowmesh.base.limits import GROUP_HOLD_S_MAX
from flowmesh.base.times import NANOSECONDS
from flowmesh.groups.commands import CommitOffsets
from flowmesh.groups.model import GroupKind
from flowmesh.host.settings import Settings
from flowmesh.node.node import Node

GROUP = "archive"
STREAMS_PER_RUN = 100
"""One process takes so many; a session of Spark costs seconds, and a command line has an end."""
_STOP_S = 5.0
_SAID_BYTES = 2_000
logger = logging.getLogger("flowmesh.archive")


def wanted(settings: Settings, path: str) -> bool:
    """Whether a stream is to be archived."""
    patterns = [pattern.strip() for pattern in settings.archive_streams.split(",")]
    return settings.archive_location is not None and any(fnmatchcase(path, pattern) for pattern in patterns if pattern)


def hold_unarchived(settings: Settings, node: Node) -> None:
    """Streams that no run has come to yet get the archive's group, so that retention waits. Called by the logs' owner
    before it trims."""
    for key, opened in node.streams.items():
        path = "/".join(key)
        if not wanted(settings, path) or node.groups.machine.find(opened.stream.id, GROUP) is not None:
            continue
        starts = {number: partition.view.start_offset for number, partition in enumerate(opened.partitions)}
        location = f"{_absolute(settings.archive_location or '')}/{path}"
        node.groups.execute(
            CommitOffsets(opened.stream.id, GROUP, starts, GroupKind.ARCHIVE, GROUP_HOLD_S_MAX * NANOSECONDS, location)
        )


def _absolute(location: str) -> str:
    return location.rstrip("/") if "://" in location else os.path.abspath(location)


class ArchiveSchedule:
    """Runs `flowmesh archive run` for all streams that are wanted, again and again."""

    def __init__(self, settings: Settings, url: str, token_file: str, streams: Callable[[], Sequence[str]]) -> None:
        self._settings = settings
        self._url = url
        self._token_file = token_file
        self._streams = streams

    async def run(self) -> None:
        """Never ends by itself. A run that fails is told in the log, and the next one tries again."""
        while True:
            streams = sorted(path for path in self._streams() if wanted(self._settings, path))
            for begin in range(0, len(streams), STREAMS_PER_RUN):
                try:
                    await self._run_once(streams[begin : begin + STREAMS_PER_RUN])
                except Exception:
                    logger.exception("an archive run could not be made; it is tried again")
            await asyncio.sleep(self._settings.archive_interval_s)

    def command(self, streams: Sequence[str]) -> list[str]:
        settings = self._settings
        assert settings.archive_location is not None, "without a location there is no schedule"
        options = {
            "--to": settings.archive_location,
            "--data-dir": settings.data_dir,
            "--url": self._url,
            "--token-file": settings.archive_token_file or self._token_file,
            "--master": settings.archive_master,
            "--ca-file": settings.tls_certificate,
        }
        said = [text for name, value in options.items() if value is not None for text in (name, value)]
        return [sys.executable, "-m", "flowmesh", "archive", "run", *streams, "--each", "--json", *said]

    async def _run_once(self, streams: Sequence[str]) -> None:
        process = await asyncio.create_subprocess_exec(
            *self.command(streams),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        complaints = asyncio.create_task(_last_words(process.stderr))
        try:
            async for line in process.stdout:
                _tell(line)
            await process.wait()
        finally:
            if process.returncode is None:
                await asyncio.shield(_end(process))
        if process.returncode:
            logger.warning("an archive run ended with status %d: %s", process.returncode, await complaints)


def _tell(line: bytes) -> None:
    """One stream is done. Runs that found nothing to do are not worth a line."""
    done = msgspec.json.decode(line)
    if done["files"]:
        logger.info("archived %d records of %s to %s", done["records"], done["stream"], done["location"])


async def _last_words(stream: asyncio.StreamReader) -> str:
    """What was complained of at the end; Java says much before."""
    said = b""
    while piece := await stream.read(_SAID_BYTES):
        said = (said + piece)[-_SAID_BYTES:]
    return said.decode(errors="replace").strip()


async def _end(process: asyncio.subprocess.Process) -> None:
    """What it has not published counts for nothing, so there is no need to be gentle for long."""
    with suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()
