"""Arrow batches from Spark to Python, bounded by rows instead of by bytes.

Spark ends a batch at 10,000 rows or 64 MB. For the bytes it asks each column's vector for its size
after every row: of a table's 2.2 CPU-µs a row of ten columns, 0.6. A program that knows how large
its rows are can have the same bound by a number of rows alone, which costs nothing.
"""

from collections.abc import Mapping

from headrace.spark.errors import OptionError

ROW_BYTES_MAX = "spark.headrace.rowBytesMax"
"""The setting: the largest row in bytes that queries of the session pass to Python workers."""
ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES_PER_BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"
SPARKS_ROWS, SPARKS_BYTES = 10_000, 64 << 20
"""Spark's defaults of both."""
NOT_MEASURED = (1 << 31) - 1
"""The one limit of bytes for which Spark does not measure a batch."""


def bound_of_rows(settings: Mapping[str, object]) -> dict[str, object]:
    """Return Spark's settings for `spark.headrace.rowBytesMax`; none without it.

    A batch of as many rows of that size has at most Spark's 64 MB. OptionError unless it is a
    number of bytes from 1 to 64 MB.
    """
    if ROW_BYTES_MAX not in settings:
        return {}
    text = str(settings[ROW_BYTES_MAX]).strip()
    size = int(text) if text.isascii() and text.isdecimal() else 0
    if not 1 <= size <= SPARKS_BYTES:
        raise OptionError(
            f"{ROW_BYTES_MAX}: {text!r} is not a number of bytes from 1 to {SPARKS_BYTES}"
        )
    return {ROWS_PER_BATCH: min(SPARKS_ROWS, SPARKS_BYTES // size), BYTES_PER_BATCH: NOT_MEASURED}
