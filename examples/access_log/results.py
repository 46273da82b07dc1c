"""What the pipeline wrote, read back from its Parquet files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from headrace.pipeline import Account

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Results:
    """The windows in order of time, the reasons for refusal with their counts, and the sums."""

    windows: list[dict[str, Any]]
    reasons: list[tuple[str, int]]
    account: Account


def read_back(spark: SparkSession, out: Path, *, fed: int, stored: int, damaged: int) -> Results:
    """Count what is in the three tables below `out`."""
    windows = _table(spark, out / "windows").orderBy("window_start").collect()
    reasons = _table(spark, out / "quarantine").groupBy("reason").agg(sf.count("*")).collect()
    account = Account(
        fed=fed,
        stored=stored,
        damaged=damaged,
        written=_table(spark, out / "requests").count(),
        quarantined=_table(spark, out / "quarantine").count(),
        windowed=sum(row.requests for row in windows),
    )
    return Results(
        [row.asDict(recursive=True) for row in windows],
        [(reason, count) for reason, count in reasons],
        account,
    )


def _table(spark: SparkSession, folder: Path) -> DataFrame:
    """A Parquet table of the file sink, by the files its own log lists as committed."""
    return spark.read.parquet(str(folder))
