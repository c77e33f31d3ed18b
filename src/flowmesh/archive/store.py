"""Where an archive lies: the few things done to its files, and the directory of this machine that does them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from flowmesh.archive import manifest as manifests
from flowmesh.archive import names
from flowmesh.archive.manifest import Manifest
from flowmesh.base.errors import AlreadyExists, AlreadyOpen, BadRequest, CorruptData
from flowmesh.host.disk import RealDisk

MANIFESTS_KEPT = 16
"""A newer one says all that an older one did; a few stay for readers that just found them, and for people."""
_LOOKS_MAX = 5


class ArchiveFiles(Protocol):
    """For readers. Names are relative to the root, parts divided by `/`."""

    @property
    def root(self) -> str: ...

    def names(self, directory: str = "") -> list[str]:
        """Of the files in a directory, sorted; none when it is not there."""
        ...

    def sizes(self) -> dict[str, int]:
        """Of the files right below the root."""
        ...

    def read(self, name: str) -> bytes: ...


class ArchiveStore(ArchiveFiles, Protocol):
    """For the one run that writes."""

    def lock(self) -> AbstractContextManager[None]:
        """One run at a time, as far as this place can tell."""
        ...

    def create(self, name: str, data: bytes) -> None:
        """The whole file, durable, or none of it; `AlreadyExists` when there is one of that name."""
        ...

    def move(self, temporary: list[tuple[str, str]]) -> None:
        """Gives files their names, in the place of older ones, durably."""
        ...

    def remove(self, found: list[str]) -> None: ...


def latest(store: ArchiveFiles) -> Manifest | None:
    """The newest manifest, which is the one that counts; None where there is no archive yet."""
    for attempt in range(_LOOKS_MAX):
        numbers = manifest_numbers(store)
        if not numbers:
            return None
        try:
            found = manifests.decode(store.read(names.manifest_name(numbers[-1])))
        except FileNotFoundError:
            if attempt == _LOOKS_MAX - 1:
                raise
            continue  # it was replaced, and taken away, between its name and its content
        if found.number != numbers[-1]:
            raise CorruptData(f"manifest {numbers[-1]} of {store.root} says that it is number {found.number}.")
        return found
    return None


def manifest_numbers(store: ArchiveFiles) -> list[int]:
    numbers = [names.manifest_number(name) for name in store.names(names.DIRECTORY)]
    return sorted(number for number in numbers if number is not None)


def publish(store: ArchiveStore, manifest: Manifest) -> None:
    """From here on readers see it. Fails when somebody else published one of this number."""
    store.create(names.manifest_name(manifest.number), manifests.encode(manifests.require_whole(manifest)))
    old = [number for number in manifest_numbers(store) if number <= manifest.number - MANIFESTS_KEPT]
    store.remove([names.manifest_name(number) for number in old])


def strays(store: ArchiveFiles, manifest: Manifest | None) -> list[str]:
    """What looks like a file of this archive and is none: left by a run that ended before it published."""
    held = {file.name for file in manifest.files} if manifest is not None else set()
    return [name for name in store.names() if names.is_data(name) and name not in held]


def is_local(location: str) -> bool:
    return urlsplit(location).scheme in ("", "file")


def local_path(location: str) -> Path:
    parts = urlsplit(location)
    if parts.scheme == "file" and parts.netloc not in ("", "localhost"):
        raise BadRequest(f"{location[:200]!r} is no file of this machine.", field="location")
    return Path(unquote(parts.path) if parts.scheme == "file" else location).absolute()


class LocalStore:
    """A directory of this machine, or one that all machines of a cluster have mounted at the same place."""

    def __init__(self, location: str) -> None:
        self._path = local_path(location)
        self.root = str(self._path)

    @contextmanager
    def lock(self) -> Iterator[None]:
        (self._path / names.TEMPORARY).mkdir(parents=True, exist_ok=True)
        try:
            lock = RealDisk().lock(str(self._path / names.LOCK))
        except BlockingIOError as error:
            raise AlreadyOpen(f"another run archives to {self.root}.", hint="Wait for it to end.") from error
        try:
            yield
        finally:
            lock.release()

    def names(self, directory: str = "") -> list[str]:
        try:
            with os.scandir(self._path / directory) as found:
                return sorted(entry.name for entry in found if entry.is_file())
        except FileNotFoundError:
            return []

    def sizes(self) -> dict[str, int]:
        found = {}
        for name in self.names():
            with suppress(FileNotFoundError):
                found[name] = (self._path / name).stat().st_size
        return found

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def create(self, name: str, data: bytes) -> None:
        temporary = self._path / names.TEMPORARY / f"{Path(name).name}.{os.getpid()}.tmp"
        target = self._path / name
        temporary.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, target)
        except FileExistsError as error:
            raise AlreadyExists(f"{target} is there already.", hint="Another run was faster; begin anew.") from error
        finally:
            temporary.unlink()
        self._sync(target.parent)

    def move(self, temporary: list[tuple[str, str]]) -> None:
        for old, new in temporary:
            os.replace(self._path / old, self._path / new)
        for directory in {(self._path / new).parent for _, new in temporary}:
            self._sync(directory)

    def remove(self, found: list[str]) -> None:
        for name in found:
            place = self._path / name
            with suppress(FileNotFoundError):
                if place.is_dir():
                    shutil.rmtree(place)
                else:
                    place.unlink()

    def _sync(self, directory: Path) -> None:
        RealDisk().sync_directory(str(directory))
