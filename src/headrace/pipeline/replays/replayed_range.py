"""The partitions that a replay computes, and the condition on rows that are in them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from headrace.pipeline.replays.replay import ReplayRangeError
from headrace.spark.tables.delta_parts.partition_range import PartitionRange
from headrace.spark.tables.partition import PartitionField, parse_fields

if TYPE_CHECKING:
    from datetime import date

    from pyspark.sql import Column, DataFrame


def partition_range(
    table: str, partition_by: str, first: date | None, end: date | None
) -> PartitionRange | None:
    """Return the days as partitions of a table; None: the whole table.

    `partition_by`: as the option partitionBy. ReplayRangeError if the days are no partitions.
    """
    if first is None and end is None:
        return None
    if first is None or end is None:
        raise ReplayRangeError("--from and --to: give both, or neither for the whole table")
    if first >= end:
        least = first + timedelta(days=1)
        raise ReplayRangeError(f"--to {end}: is the day after the last one, so at least {least}")
    days = [each for each in parse_fields(partition_by) if each.by_day]
    if len(days) != 1:
        raise ReplayRangeError(
            f"{table} is not partitioned by day(…) of one column: leave --from and --to out to "
            "replay the whole table"
        )
    return PartitionRange(days[0].name, first.isoformat(), end.isoformat())


def rows_in(rows: DataFrame, partition_by: str, range_: PartitionRange) -> DataFrame:
    """Return the rows that are in a range."""
    (day,) = (each for each in parse_fields(partition_by) if each.name == range_.column)
    return rows.where(_in_range(rows, day, range_))


def _in_range(rows: DataFrame, day: PartitionField, range_: PartitionRange) -> Column:
    """Return the condition. Days are in UTC, whatever the session's time zone."""
    kind = rows.schema[day.column].dataType.typeName()
    first, end = (
        sf.expr(
            f"TIMESTAMP_NTZ '{text} 00:00:00'"
            if kind == "timestamp_ntz"
            else f"TIMESTAMP '{text}T00:00:00Z'"
        )
        for text in (range_.first, range_.end)
    )
    column = sf.col(f"`{day.column.replace('`', '``')}`")
    return (column >= first) & (column < end)
