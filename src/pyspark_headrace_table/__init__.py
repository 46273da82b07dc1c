"""Spark finds `format("headrace-table")` by this package's name; the rest is headrace.spark.tables.

Spark imports every `pyspark_*` package to look for sources, and one import that fails hides all of
them: so only pyspark is imported here, and what is missing is said when a table is written.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """`df.write.format("headrace-table")`, `df.writeStream.format("headrace-table")`."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return "headrace-table"

    def _tables(self) -> DataSource:
        try:
            from headrace.spark.tables.sink import HeadraceTable
        except ImportError as error:
            from headrace.config.installing import install_command

            command = install_command("pyarrow", "numba", "numpy", "pandas")
            raise ImportError(
                f"tables need {error.name} for the Python that Spark runs (see PYSPARK_PYTHON):"
                f" {command}"
            ) from error
        return HeadraceTable(self.options)

    def schema(self) -> "StructType | str":
        """Refuse to read, and say what reads tables."""
        return self._tables().schema()

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        """Return the writer of batch jobs."""
        return self._tables().writer(schema, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: "StructType", overwrite: bool
    ) -> DataSourceStreamWriter:
        """Return the writer of streams."""
        return self._tables().streamWriter(schema, overwrite)
