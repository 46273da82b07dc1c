"""The column of failed checks, evaluated by Spark: the one place where a condition is evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from headrace.spark.checks.check import FAILED
from headrace.spark.checks.options import written_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from headrace.spark.checks.check import Check
    from headrace.spark.checks.options import RowChecks


def with_failed(rows: DataFrame, checks: Sequence[Check]) -> DataFrame:
    """Return the rows with the names of the checks that each fails. A null condition fails."""
    names = [
        sf.when(sf.expr(check.condition), sf.lit(None)).otherwise(sf.lit(check.name))
        for check in checks
    ]
    return rows.withColumn(FAILED, sf.array_compact(sf.array(*names).cast("array<string>")))


def written_rows(schema: StructType, checks: RowChecks | None) -> StructType:
    """Return the columns that are written. OptionError without the column of failed checks."""
    return StructType([schema[name] for name in written_names(schema.names, checks)])
