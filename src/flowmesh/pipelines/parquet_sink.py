"""Parquet files that are exact for every reader, also for one that does not ask Spark.

Spark's own file sink is exact only through its log of files: raw, the directory of a query that was killed holds rows
twice. Here a batch is written aside, and its files get names that a repeated batch finds again and replaces.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ASIDE = "_unfinished"
"""Readers pass over what begins with an underscore."""
_PART, _FIRST_PART = "part-", "part-00000"


class ParquetSink:
    """One directory, written by one query, which runs once at a time. Called with each batch by `foreachBatch`."""

    def __init__(self, location: str, query: str, options: dict[str, str]) -> None:
        """`query` is what the query is called over all its runs."""
        self._location = location.rstrip("/")
        self._options = options
        self._prefix = hashlib.sha256(query.encode()).hexdigest()[:12]
        """What tells the files of different queries apart, also when they write to the same directory."""

    def __call__(self, frame: DataFrame, batch: int | str) -> None:
        """`batch` is a number, or for one that is never repeated the name of its run."""
        name = f"{self._prefix}-{batch:010d}" if isinstance(batch, int) else f"{self._prefix}-{batch}"
        aside = f"{self._location}/{ASIDE}/{name}"
        files = _Files(frame, self._location)
        for unfinished in files.found(f"{self._location}/{ASIDE}", f"{self._prefix}-"):
            files.remove(unfinished)
        frame.write.mode("overwrite").options(**self._options).parquet(aside)
        self._publish(files, aside, name)

    def _publish(self, files: _Files, aside: str, name: str) -> None:
        for earlier in files.found(self._location, f"{name}-"):
            files.remove(earlier)
        written = [file for file in files.found(aside, _PART) if not files.is_empty(file)]
        for number, file in enumerate(written):
            files.rename(file, f"{self._location}/{name}-{number:05d}.parquet")
        files.remove(aside)


class _Files:
    """The file system of a directory, whichever Spark knows it as."""

    def __init__(self, frame: DataFrame, place: str) -> None:
        spark: Any = frame.sparkSession
        self._java = spark.sparkContext._jvm
        self._configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._system = self._path(place).getFileSystem(self._configuration)

    def found(self, directory: str, prefix: str) -> list[str]:
        """By their names. No pattern is made of them: a directory may be called like one."""
        place = self._path(directory)
        if not self._system.exists(place):
            return []
        paths = [each.getPath() for each in self._system.listStatus(place)]
        return sorted(path.toString() for path in paths if path.getName().startswith(prefix))

    def is_empty(self, file: str) -> bool:
        """Spark makes one such file, the first, so that a directory without rows still has columns."""
        if not file.rpartition("/")[2].startswith(_FIRST_PART):
            return False
        parquet = self._java.org.apache.parquet.hadoop
        reader = parquet.ParquetFileReader.open(
            parquet.util.HadoopInputFile.fromPath(self._path(file), self._configuration)
        )
        try:
            return bool(reader.getRecordCount() == 0)
        finally:
            reader.close()

    def rename(self, file: str, name: str) -> None:
        if not self._system.rename(self._path(file), self._path(name)):
            raise OSError(f"{file} cannot be renamed to {name}.")

    def remove(self, place: str) -> None:
        self._system.delete(self._path(place), True)

    def _path(self, place: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(place)
