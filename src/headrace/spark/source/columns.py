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
from headrace.arrow.typed.typed_rows import columns_to_read
from headrace.spark.errors import OptionError
from headrace.spark.quarantine.refused import COLUMNS_READ
from headrace.spark.source.options import Options
from headrace.spark.source.typed_values import typed_row_schema

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
                f"schema: {column.name} {column.dataType.simpleString()} is not one of {ours}"
            )
        if not column.nullable and column.name not in NEVER_NULL:
            raise OptionError(f"schema: {column.name} may be null, and is to be NOT NULL")
    required = frozenset(column.name for column in schema if not column.nullable)
    return Columns(tuple(schema.fieldNames()), required)


def schema_of(options: Options) -> StructType:
    """Return the schema of the rows that the options ask for."""
    if options.typed is None:
        return row_schema(options.columns)
    return typed_row_schema(options.typed, options.columns)


def columns_of(options: Options, schema: StructType) -> Columns:
    """Return the columns of the records to read for rows of this schema."""
    if options.typed is None:
        return chosen_columns(schema)
    if schema != schema_of(options):
        raise OptionError("schema: valueSchema gives the columns; leave .schema(…) out")
    whole = COLUMNS_READ if options.quarantine is not None else ()
    names = columns_to_read((*whole, *options.columns))
    return Columns(names, NEVER_NULL.intersection(names))
