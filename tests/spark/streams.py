"""A stream of a node, as tests fill it and hand it to Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowmesh.client import connect_blocking
from flowmesh.testing import NodeProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Stream:
    node: NodeProcess
    name: str

    @classmethod
    def create(cls, node: NodeProcess, name: str, **settings: Any) -> Stream:
        with connect_blocking(node.url, token=node.token) as client:
            client.create_stream(name, **settings)
        return cls(node, name)

    def append(self, values: Sequence[bytes | None], partition: int = 0, **columns: Any) -> None:
        """One batch, and so one block."""
        with connect_blocking(self.node.url, token=self.node.token) as client:
            client.stream(self.name).append_many(values, partition=partition, **columns)

    def fill(self, blocks: int, rows: int, partition: int = 0, width: int = 20, **columns: Any) -> None:
        """Blocks of numbered values, `00…0` and on, of `width` bytes each."""
        with connect_blocking(self.node.url, token=self.node.token) as client:
            handle = client.stream(self.name)
            for block in range(blocks):
                values = [b"%0*d" % (width, block * rows + row) for row in range(rows)]
                handle.append_many(values, partition=partition, **columns)

    @property
    def access(self) -> dict[str, str]:
        return {"url": self.node.url, "token": self.node.token}

    @property
    def files(self) -> dict[str, str]:
        return {"dataDir": str(self.node.data_dir)}

    def read(self, spark: SparkSession, **options: Any) -> DataFrame:
        """Over the network, unless the options say `dataDir`."""
        return self.reading(spark, **({} if "dataDir" in options else self.access) | options)

    def reading(self, spark: SparkSession, **options: Any) -> DataFrame:
        return spark.read.format("flowmesh").options(**options).load(self.name)

    def stream(self, spark: SparkSession, **options: Any) -> DataFrame:
        return spark.readStream.format("flowmesh").options(**self.access | options).load(self.name)
