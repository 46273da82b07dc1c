"""The tables that the pipeline wrote, read back from their Parquet files."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyarrow import dataset

if TYPE_CHECKING:
    from pathlib import Path

TABLES = ("requests", "quarantine", "windows")


@dataclass(frozen=True)
class Results:
    """The windows in order of time, the reasons of refusals with their counts, and the sums."""

    windows: list[dict[str, Any]]
    reasons: list[tuple[str, int]]
    requests: int

    @property
    def quarantined(self) -> int:
        """The number of rows in `quarantine`."""
        return sum(count for _, count in self.reasons)

    @property
    def windowed(self) -> int:
        """The number of requests in all windows."""
        return sum(row["requests"] for row in self.windows)


def read_back(storage: Path) -> Results:
    """Read the tables below `storage`. OSError."""
    windows = _table(storage / "windows")
    refused = _table(storage / "quarantine")
    requests = _table(storage / "requests")
    return Results(
        sorted(
            windows.to_table().to_pylist() if windows else [], key=lambda row: row["window_start"]
        ),
        Counter(
            refused.to_table(["reason"])["reason"].to_pylist() if refused else []
        ).most_common(),
        requests.count_rows() if requests else 0,
    )


def _table(directory: Path) -> dataset.Dataset | None:
    """Return a table; None if no row was written to it."""
    if not directory.is_dir() or not any(directory.rglob("*.parquet")):
        return None
    return dataset.dataset(directory, format="parquet", partitioning="hive")
