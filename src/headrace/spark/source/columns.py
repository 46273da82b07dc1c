"""Spark types of the source's columns."""

from collections.abc import Sequence
from typing import NamedTuple

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

from headrace.arrow.read.columns import AMQP_TYPE, NEVER_NULL
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


class Columns(NamedTuple):
    """The columns of a row, in order."""

    names: tuple[str, ...]
    required: frozenset[str]
    """The columns that the row's schema declares NOT NULL."""


def row_schema(columns: Sequence[str]) -> StructType:
    """Return the Spark schema of these columns.

    Columns that every record has are not nullable, so Spark skips its null checks.
    """
    return StructType([StructField(name, _TYPES[name], name not in NEVER_NULL) for name in columns])


def chosen_columns(schema: StructType) -> Columns:
    """Return the columns of a schema given by the user; OptionError if a column does not match.

    With `.schema("value binary, offset long")` a user leaves unneeded columns out.
    """
    for column in schema:
        if _TYPES.get(column.name) != column.dataType:
            ours = ", ".join(f"{name} {kind.simpleString()}" for name, kind in _TYPES.items())
            raise OptionError(
                f"schema: {column.name} {column.dataType.simpleString()} is none of {ours}"
            )
        if not column.nullable and column.name not in NEVER_NULL:
            raise OptionError(f"schema: {column.name} may be null, and is to be NOT NULL")
    required = frozenset(column.name for column in schema if not column.nullable)
    return Columns(tuple(schema.fieldNames()), required)
