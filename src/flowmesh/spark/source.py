"""The data source that Spark is given. It is made and pickled often, so it opens nothing and imports late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader


class FlowMeshSource(DataSource):
    """`format("flowmesh")`, for reading and writing, in batches and as a stream."""

    @classmethod
    def name(cls) -> str:
        return "flowmesh"

    def schema(self) -> str:
        from flowmesh.spark.batch_source import read_options
        from flowmesh.spark.schema import ddl_of

        return ddl_of(read_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from flowmesh.spark.batch_source import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        from flowmesh.spark.stream_source import StreamReader

        return StreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from flowmesh.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 (Spark's name)
        from flowmesh.spark.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
