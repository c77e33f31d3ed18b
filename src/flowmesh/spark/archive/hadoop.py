"""An archive on any file system that Spark is set up for: HDFS, S3, whatever has a scheme. The JVM does the work."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from flowmesh.archive import names as archive_names
from flowmesh.base.errors import AlreadyExists, BadRequest, NotFound, StorageFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OBJECT_STORES = frozenset({"s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs"})
"""Where a file is there once it is whole, and a rename is a copy."""
_MOVES_AT_ONCE = 8


class HadoopStore:
    """No lock reaches over machines here: whoever sets runs up sees to it that there is one at a time."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._jvm: Any = spark._jvm
        self._root = location.rstrip("/")
        self._is_object_store = location.partition(":")[0].lower() in OBJECT_STORES
        try:
            configuration = spark._jsc.hadoopConfiguration()
            self._files: Any = self._path("").getFileSystem(configuration)
        except Py4JJavaError as error:
            raise BadRequest(
                f"Spark has no file system for {location[:200]!r}: {_first_line(error)}",
                field="location",
                hint="Name a directory, or set Spark up for this scheme (--conf, --packages).",
            ) from None

    @property
    def root(self) -> str:
        return self._root

    @contextmanager
    def lock(self) -> Iterator[None]:
        yield

    def names(self, directory: str = "") -> list[str]:
        return sorted(status.getPath().getName() for status in self._listed(directory))

    def sizes(self) -> dict[str, int]:
        return {status.getPath().getName(): int(status.getLen()) for status in self._listed("")}

    def _listed(self, directory: str) -> list[Any]:
        with self._told(directory):
            place = self._path(directory)
            if not self._files.exists(place):
                return []
            return [status for status in self._files.listStatus(place) if status.isFile()]

    def read(self, name: str) -> bytes:
        with self._told(name):
            if not self._files.exists(self._path(name)):
                raise FileNotFoundError(f"{self._root}/{name}")
            stream = self._files.open(self._path(name))
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def create(self, name: str, data: bytes) -> None:
        target = self._path(name)
        with self._told(name):
            if self._files.exists(target):
                raise self._already(name)
            if self._is_object_store:
                self._write(target, data)
                return
            temporary = self._path(f"{archive_names.TEMPORARY}/{uuid.uuid4().hex}.tmp")
            self._write(temporary, data)
            if not self._files.rename(temporary, target):
                self._files.delete(temporary, False)
                raise self._already(name)

    def _write(self, place: Any, data: bytes) -> None:
        stream = self._files.create(place, False)
        try:
            stream.write(data)
        finally:
            stream.close()

    def move(self, temporary: list[tuple[str, str]]) -> None:
        with ThreadPoolExecutor(_MOVES_AT_ONCE) as pool:
            list(pool.map(self._move, temporary))

    def _move(self, names: tuple[str, str]) -> None:
        old, new = names
        with self._told(new):
            if self._files.exists(self._path(new)):
                self._files.delete(self._path(new), False)
            if not self._files.rename(self._path(old), self._path(new)):
                raise StorageFailed(f"{self._root}/{old} could not be renamed to {new}.")

    def remove(self, found: list[str]) -> None:
        for name in found:
            with self._told(name):
                self._files.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{name}" if name else f"{self._root}/")

    def _already(self, name: str) -> AlreadyExists:
        return AlreadyExists(f"{self._root}/{name} is there already.", hint="Another run was faster; begin anew.")

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            kind = error.java_exception.getClass().getSimpleName()
            if kind == "FileNotFoundException":
                raise FileNotFoundError(f"{self._root}/{name}") from None
            if kind == "FileAlreadyExistsException":
                raise self._already(name) from None
            if kind == "AccessControlException":
                raise NotFound(f"{self._root}/{name} may not be used: {_first_line(error)}") from None
            raise StorageFailed(f"{self._root}/{name}: {_first_line(error)}") from None


def _first_line(error: Py4JJavaError) -> str:
    return str(error.java_exception.toString()).partition("\n")[0]
