"""Spark's types of the columns there are."""

from collections.abc import Sequence

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.arrow.columns import AMQP_TYPE
from headrace.spark.errors import OptionError

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
    "amqp": from_arrow_type(AMQP_TYPE),
}


def row_schema(columns: Sequence[str]) -> StructType:
    """Return Spark's schema of these columns."""
    return StructType([StructField(name, _TYPES[name]) for name in columns])


def chosen_columns(schema: StructType) -> tuple[str, ...]:
    """Return the columns of a schema the user gave; OptionError where it is not made of ours.

    This is how unneeded columns are left out: `.schema("value binary, offset long")`.
    """
    for column in schema:
        if _TYPES.get(column.name) != column.dataType:
            ours = ", ".join(f"{name} {kind.simpleString()}" for name, kind in _TYPES.items())
            raise OptionError(
                f"schema: {column.name} {column.dataType.simpleString()} is none of {ours}"
            )
    return tuple(schema.fieldNames())
