"""A range of a table's partitions by one column, such as the days from … up to …."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.spark.tables.partition import Key


@dataclass(frozen=True)
class PartitionRange:
    """Partitions whose value of a column is at least `first` and below `end`."""

    column: str
    """Name of a partition column of the type DATE."""
    first: str
    """A date, such as "2026-11-24"."""
    end: str

    def holds(self, partition_by: Sequence[str], key: Key) -> bool:
        """Return whether a partition is in the range. ValueError if the table has no such
        column."""
        value = key[list(partition_by).index(self.column)]
        return value is not None and self.first <= value < self.end

    def overlaps(self, other: PartitionRange) -> bool:
        """Return whether a partition may be in both; true for ranges of different columns."""
        if self.column != other.column:
            return True
        return self.first < other.end and other.first < self.end

    def __str__(self) -> str:
        return f"{self.column} from {self.first} up to {self.end}"
