"""The columns of a topic's rows in a pipeline: the value's, then those of the record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import ParseException
from pyspark.sql.types import StructType

from headrace.pipeline.declarations import DeclarationError
from headrace.pipeline.load import sentence_of

if TYPE_CHECKING:
    from headrace.pipeline.declarations import TopicSource

_META = ("_partition INT", "_offset BIGINT", "_timestamp TIMESTAMP")


def columns_of(source: TopicSource) -> StructType:
    """Return the columns of a topic's rows. DeclarationError for DDL that Spark does not parse."""
    columns = value_columns(source)
    key = ["_key BINARY"] if source.meta == "key" else []
    meta = parsed_ddl("meta", ", ".join([*_META, *key])).fields if source.meta else []
    whole = StructType([*columns.fields, *meta])
    names = [column.name.casefold() for column in whole.fields]
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(f"topic {source.name}: two columns are named {name}")
    for name in source.hidden:
        if name not in columns.names:
            known = ", ".join(columns.names)
            raise DeclarationError(
                f"topic {source.name}: hidden: there is no column {name}: {known}"
            )
    return whole


def value_columns(source: TopicSource) -> StructType:
    """Return the columns of a topic's values. DeclarationError."""
    return parsed_ddl(f"topic {source.name}", source.columns)


def parsed_ddl(where: str, ddl: str) -> StructType:
    """Parse columns with Spark's parser. DeclarationError, which begins with `where`."""
    try:
        columns = StructType.fromDDL(ddl)
    except ParseException as error:
        raise DeclarationError(f"{where}: {ddl!r}: {sentence_of(error)}") from error
    if not isinstance(columns, StructType) or not columns.fields:
        raise DeclarationError(f"{where}: {ddl!r} names no columns")
    return columns
