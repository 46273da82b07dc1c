"""Spark finds `format("headrace")` by this package's name; all else is in `headrace.spark`.

Spark imports every `pyspark_*` package to look for sources, and one import that fails hides all of
them: so only pyspark is imported here, and what is missing is said when the source is used.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """`format("headrace")` of `spark.read`, `readStream`, `df.write` and `writeStream`."""

    listened = False

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return "headrace"

    def _source(self) -> DataSource:
        try:
            from headrace.spark.source.source import HeadraceSource
        except ImportError as error:
            from headrace.config.installing import install_command

            command = install_command("pyarrow", "numba", "numpy", "pandas")
            raise ImportError(
                f"the headrace source needs {error.name} for the Python that Spark runs:"
                f" {command}; or import headrace.spark before"
                " the session starts, or call headrace.spark.attach(spark), to run the program's"
                " own"
            ) from error
        source = HeadraceSource(self.options)
        source.listened = self.listened
        return source

    def schema(self) -> "StructType | str":
        """Return the row of Spark's own Kafka connector."""
        return self._source().schema()

    def reader(self, schema: "StructType") -> DataSourceReader:
        """Return the reader of batches."""
        return self._source().reader(schema)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of streams."""
        return self._source().streamReader(schema)

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        """Return the writer of batches."""
        return self._source().writer(schema, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: "StructType", overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the writer of streams."""
        return self._source().streamWriter(schema, overwrite)  # type: ignore[return-value]


class ListenedSource(DefaultSource):
    """The same in a session in which `headrace.spark.attach` commits what queries have read."""

    listened = True
