"""The data source as Spark's API sees it.

Spark runs each method in a Python process of its choice: readers are pickled, so they hold only
options and connect where they are used.
"""

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from headrace.spark.errors import OptionError
from headrace.spark.sink.sink import batch_writer, stream_writer
from headrace.spark.source.batch_reader import BatchReader
from headrace.spark.source.columns import schema_of
from headrace.spark.source.options import parse_options
from headrace.spark.source.stream_reader import StreamReader


class HeadraceSource(DataSource):
    """The data source for `format("headrace")`."""

    listened = False
    """Whether `attach` added a listener that commits the offsets of streaming queries."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "headrace"

    def schema(self) -> StructType:
        """Return the schema of a row: the connector's, or the chosen columns."""
        # Spark does not say yet whether this is a batch or a stream; columns are the same for both.
        return schema_of(parse_options(_without_bounds(self.options), streaming=False))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for `spark.read`."""
        return BatchReader(parse_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader for `spark.readStream`."""
        options = parse_options(self.options, streaming=True)
        return StreamReader(options, schema, commits=not self.listened)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer for `df.write`."""
        if overwrite:
            raise OptionError("mode: a topic cannot be overwritten; use append")
        return batch_writer(self.options, schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the writer for `df.writeStream`."""
        if overwrite:
            raise OptionError("outputMode: a topic cannot be overwritten; use append or update")
        return stream_writer(self.options, schema)


def _without_bounds(options: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in options.items()
        if not name.lower().startswith(("starting", "ending"))
    }
