"""Parquet directories of our sink, read by Spark as it is."""

from collections.abc import Callable
from typing import Any

from tests.outside.spark_tables.shared_cases import Cases, empty_as_null
from tests.outside.spark_tables.written import listed, rows
from tests.support.spark.tables import Run, write


class ParquetCases(Cases):
    """The cases; each has a directory."""

    def run(self, name: str, **options: Any) -> Run:
        (self.directory / f"parquet-{name}").mkdir()
        return Run(self.directory / f"parquet-{name}", "parquet", **options)

    def named(self, run: Run) -> str:
        return f"parquet.`{run.path}`"

    def partitions(self) -> None:
        """Columns and days; values of any letters; merged, and with rows that wait for it."""
        run = self.run("partitions", partitionBy="region,day(timestamp)", mergeEvery=2)
        parts = [rows(first, 30) for first in range(0, 90, 30)]
        for batch, part in enumerate(parts):
            write(run, batch, part)
        self.regions(run, empty_as_null(listed(parts[:2])))
        days = self.sql(run, "select timestamp_day, count(*) from {} group by 1 order by 1")
        assert days == [[f"1970-01-0{day}", 20] for day in (1, 2, 3)], days

    def by_name(self) -> dict[str, Callable[[], None]]:
        return {
            "Parquet: every type, found by statistics": self.types,
            "Parquet: partitions of any letters and days": self.partitions,
        }
