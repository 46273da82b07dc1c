"""The results of the pipeline: its tables, read back from their Parquet files, and refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyarrow import dataset

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TABLES = ("requests", "windows")


@dataclass(frozen=True)
class Results:
    """The windows in order of time, the reasons of refusals with their counts, and the sums."""

    windows: list[dict[str, Any]]
    reasons: list[tuple[str, int]]
    requests: int

    @property
    def quarantined(self) -> int:
        """The number of lines in the quarantine."""
        return sum(count for _, count in self.reasons)

    @property
    def windowed(self) -> int:
        """The number of requests in all windows."""
        return sum(row["requests"] for row in self.windows)


def read_back(storage: Path, reasons: Sequence[tuple[str, int]]) -> Results:
    """Read the tables below `storage`; `reasons`: of the quarantined lines. OSError."""
    windows = _table(storage / "windows")
    requests = _table(storage / "requests")
    return Results(
        sorted(
            windows.to_table().to_pylist() if windows else [], key=lambda row: row["window_start"]
        ),
        list(reasons),
        requests.count_rows() if requests else 0,
    )


def _table(directory: Path) -> dataset.Dataset | None:
    """Return a table; None if no row was written to it."""
    if not directory.is_dir() or not any(directory.rglob("*.parquet")):
        return None
    return dataset.dataset(directory, format="parquet", partitioning="hive")
