"""Files made by Python on executors, written by Spark: to every file system that Spark knows, with no other client.

Spark's writer of text puts the bytes of a string and then a separator, as they are. The last byte of every Parquet file
is the `1` of `PAR1`, so with `1` as the separator a file cut behind some of its ones comes out byte for byte.
"""

from __future__ import annotations

import re
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from flowmesh.archive import names
from flowmesh.archive.growing import FailedPiece, WrittenPiece
from flowmesh.archive.pieces import ArchivePiece
from flowmesh.archive.store import ArchiveStore
from flowmesh.base.errors import CorruptData, FlowMeshError, StorageFailed
from flowmesh.base.limits import MIB
from flowmesh.spark.archive.progress import Progress, watched

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

SEPARATOR = b"1"
CHUNK_BYTES = 4 * MIB
_PART = re.compile(r"part-([0-9]+)-")
_COLUMN = pa.schema([pa.field("data", pa.string(), nullable=False)])

Told = list[tuple[int, WrittenPiece | FailedPiece]]


def write_through_spark(
    spark: SparkSession, store: ArchiveStore, planned: Sequence[ArchivePiece], progress: Progress
) -> list[WrittenPiece]:
    """Writes the pieces below the temporary directory of the archive; returns what was written, each with its name."""
    told = _accumulator(spark)
    directory = f"{names.TEMPORARY}/{uuid.uuid4().hex}"
    numbers = spark.sparkContext.parallelize(list(range(len(planned))), len(planned)).map(lambda number: (number,))
    rows = spark.createDataFrame(numbers, "number int").mapInArrow(_PipeTask(list(planned), told), "data string")
    with watched(spark, f"archive to {store.root}", progress, [piece.size_bytes for piece in planned]):
        rows.write.option("lineSep", SEPARATOR.decode()).option("compression", "none").text(f"{store.root}/{directory}")
    written = {number: _written(piece) for number, piece in told.value}
    found = {int(match[1]): name for name in store.names(directory) if (match := _PART.match(name)) is not None}
    if sorted(found) != sorted(written) or len(found) != len(planned):
        raise StorageFailed(f"{len(planned)} files were to be written to {store.root}, and there are {len(found)}.")
    return [written[number]._replace(temporary=f"{directory}/{found[number]}") for number in sorted(found)]


def _written(piece: WrittenPiece | FailedPiece) -> WrittenPiece:
    if isinstance(piece, FailedPiece):
        raise piece.error()
    return piece


class _PipeTask:
    """One piece to a local file, and that file to Spark."""

    def __init__(self, planned: list[ArchivePiece], told: Accumulator[Told]) -> None:
        self._planned = planned
        self._told = told

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from flowmesh.archive.parquet import write_piece

        for batch in numbers:
            for number in batch.column(0).to_pylist():
                with tempfile.TemporaryDirectory(prefix="flowmesh-archive-") as directory:
                    place = Path(directory) / "piece"
                    try:
                        written = write_piece(self._planned[number], place)
                    except FlowMeshError as error:
                        self._told.add([(number, FailedPiece.of(error))])
                        continue
                    for text in chunks(place):
                        yield text_batch(text)
                self._told.add([(number, written)])


def chunks(place: Path, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The file without some of its separators: joined with them, and with one behind the last, it is whole again."""
    rest = b""
    with place.open("rb") as file:
        while data := file.read(chunk_bytes):
            data = rest + data
            end = data.rfind(SEPARATOR)
            if end >= 0:
                yield data[:end]
            rest = data[end + 1 :]
    if rest:
        raise CorruptData(f"{place} does not end as a Parquet file does.")


def text_batch(data: bytes) -> pa.RecordBatch:
    """One row of text that is none: nobody between here and the file looks at it."""
    bounds = bytes(4) + len(data).to_bytes(4, "little")
    column = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    return pa.RecordBatch.from_arrays([column], schema=_COLUMN)


def _accumulator(spark: SparkSession) -> Accumulator[Told]:
    from pyspark.accumulators import AccumulatorParam

    class ToldPieces(AccumulatorParam[Told]):
        def zero(self, value: Told) -> Told:  # noqa: ARG002
            return []

        def addInPlace(self, value1: Told, value2: Told) -> Told:  # noqa: N802 (Spark's name)
            return value1 + value2

    return spark.sparkContext.accumulator([], ToldPieces())
