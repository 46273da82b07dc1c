"""What the cases of all formats share: a statement on a table, and what it must hold."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.outside.spark_tables.vendors import Vendors
from tests.outside.spark_tables.written import COLUMNS, FILTERS, SCHEMA, Row, listed, rows, same
from tests.support.spark.tables import Run, write


class Cases(ABC):
    """The cases of one format, each on a table of its own."""

    def __init__(self, vendors: Vendors, directory: Path) -> None:
        self.vendors, self.directory = vendors, directory

    @abstractmethod
    def run(self, name: str, **options: Any) -> Run:
        """A run of a query that writes a table of this name."""

    @abstractmethod
    def named(self, run: Run) -> str:
        """The table as SQL has it."""

    @abstractmethod
    def by_name(self) -> dict[str, Callable[[], None]]:
        """The cases."""

    def sql(self, run: Run, statement: str) -> list[list[Any]]:
        """A statement, in which {} is the table."""
        return self.vendors.sql(statement.format(self.named(run)))

    def holds(self, run: Run, written: Iterable[Row], suffix: str = "") -> None:
        """AssertionError unless a query finds the rows written."""
        same(self.sql(run, f"select {COLUMNS} from {{}} {suffix}"), written, SCHEMA.names)

    def regions(self, run: Run, written: list[Row]) -> None:
        """The same of each partition."""
        self.holds(run, written)
        for text, region in (("= 'a/b c%=ü'", "a/b c%=ü"), ("is null", None), ("= ''", "")):
            wanted = [row for row in written if row["region"] == region]
            self.holds(run, wanted, f"where region {text}")

    def types(self) -> None:
        """Every type, null and not; rows are found by what files' statistics leave."""
        run, parts = self.run("types"), [rows(0, 40), rows(40, 40)]
        write(run, 0, *parts)
        written = listed(parts)
        self.holds(run, written)
        for text, wanted in FILTERS.items():
            self.holds(run, filter(wanted, written), f"where {text}")


def empty_as_null(rows: Iterable[Row]) -> list[Row]:
    """Rows as Hive and Delta have them, to which an empty text is no partition."""
    return [{**row, "region": row["region"] or None} for row in rows]
