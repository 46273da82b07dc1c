"""Parses the values of a topic into columns with a plain Python parser.

The parser runs in Spark's Python workers on Arrow batches (`mapInArrow`): one call per record,
without row objects. The workers import it by its module's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.pipeline.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, DataFrame

PLACE = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
    ]
)
OUTCOME = StructType(
    [
        StructField("heartbeat", BooleanType()),
        StructField("reason", StringType()),
        StructField("raw", BinaryType()),
    ]
)
_ARROW: dict[DataType, pa.DataType] = {
    StringType(): pa.string(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    BinaryType(): pa.binary(),
}


def parse_values(
    records: DataFrame, parser: Callable[[bytes], tuple[Any, ...]], fields: StructType
) -> DataFrame:
    """Return the place of each record, then `fields`, then the `OUTCOME` of parsing it.

    `parser` returns its values in the order of `fields` (strings, ints and bytes; times as
    integers) or raises `Unreadable`. Each input row gives one output row:

        record            fields    heartbeat  reason  raw
        without a value   null      true       null    null
        parsed            values    false      null    null
        refused           null      false      text    value
    """
    schema = StructType([*PLACE.fields, *fields.fields, *OUTCOME.fields])
    arrow_types = [_ARROW[field.dataType] for field in fields.fields]

    def parse_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _parse_batch(batch, parser, arrow_types, schema.names)

    return records.select(*PLACE.names, "value").mapInArrow(parse_batches, schema)


def understood() -> Column:
    """Return the condition that the parser accepted the record."""
    return ~sf.col("heartbeat") & sf.col("reason").isNull()


def refused() -> Column:
    """Return the condition that the parser refused the record, so it goes into the quarantine."""
    return sf.col("reason").isNotNull()


def _parse_batch(
    batch: pa.RecordBatch,
    parser: Callable[[bytes], tuple[Any, ...]],
    arrow_types: list[pa.DataType],
    names: list[str],
) -> pa.RecordBatch:
    nothing = (None,) * len(arrow_types)
    rows: list[tuple[Any, ...]] = []
    for value in batch.column(len(PLACE)).to_pylist():
        if value is None:
            rows.append((*nothing, True, None, None))
            continue
        try:
            rows.append((*parser(value), False, None, None))
        except Unreadable as why:
            rows.append((*nothing, False, str(why), value))
    types = [*arrow_types, pa.bool_(), pa.string(), pa.binary()]
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    parsed = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    place = [batch.column(index) for index in range(len(PLACE))]
    return pa.RecordBatch.from_arrays([*place, *parsed], names)
